"""Invalid options and rows are refused by name before a data file or a version is written."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import (
    ConfigError,
    ConstraintViolationError,
    InvalidCommitError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)

ROWS = pa.table({"p": ["a", "b"], "x": [1, 2]})


def files_of(path):
    return sorted(file.name for file in path.rglob("*.parquet"))


# --- an empty string in a partition column is read back as null, so constraints see a null


@pytest.mark.parametrize(
    ("columns", "constraints", "rule"),
    [
        ("p string not null, x bigint", {}, "'p' is NOT NULL"),
        ("p string, x bigint", {"there": "p IS NOT NULL"}, "constraint 'there'"),
        ("p binary not null, x bigint", {}, "'p' is NOT NULL"),
    ],
)
def test_an_empty_partition_value_violates_not_null(tmp_path, columns, constraints, rule):
    table = ld.Table.create(tmp_path, columns, partition_by=["p"], constraints=constraints)
    empty = b"" if "binary" in columns else ""
    with pytest.raises(ConstraintViolationError, match=rule):
        table.write({"p": [empty], "x": [1]})
    assert table.version == 0
    assert files_of(tmp_path) == []


def test_an_empty_partition_value_is_null_to_a_predicate(tmp_path):
    ld.write(tmp_path, ROWS, partition_by="p")
    with pytest.raises(ConstraintViolationError, match="do not match the predicate"):
        ld.write(tmp_path, {"p": [""], "x": [1]}, "overwrite", where="p = ''")
    ld.write(tmp_path, {"p": [""], "x": [3]}, "overwrite", where="p IS NULL")
    found = ld.Table.open(tmp_path).to_arrow().sort_by("x").to_pylist()
    assert found == [*ROWS.to_pylist(), {"p": None, "x": 3}]


def test_an_empty_string_in_a_data_column_stays_empty(tmp_path):
    ld.Table.create(tmp_path, "p string not null, x bigint").write({"p": [""], "x": [1]})
    assert ld.Table.open(tmp_path).to_arrow().to_pylist() == [{"p": "", "x": 1}]


# --- a new partitioning with a new schema


def replaced(path, rows, partition_by):
    return ld.write(path, rows, "overwrite", schema_mode="overwrite", partition_by=partition_by)


def test_new_partition_columns_are_spelt_as_the_schema_spells_them(tmp_path):
    ld.write(tmp_path, ROWS, partition_by="p")
    replaced(tmp_path, {"Day": [1], "P": ["a"], "x": [1]}, ["day", "P"])
    snapshot = ld.Table.open(tmp_path).snapshot()
    assert snapshot.partition_columns == ("Day", "p")
    assert snapshot.to_arrow().to_pylist() == [{"Day": 1, "p": "a", "x": 1}]


@pytest.mark.parametrize(
    ("rows", "partition_by", "match"),
    [
        ({"q": ["a"], "x": [1]}, ["q", "Q"], "twice"),
        ({"q": [[1]], "x": [1]}, ["q"], "cannot be a partition column"),
        ({"q": ["a"]}, ["q"], "all columns"),
        ({"q": ["a"], "x": [1]}, ["nope"], "'nope': missing"),
        ({"p": ["a"]}, None, "all columns"),
    ],
)
def test_invalid_partition_columns_are_refused(tmp_path, rows, partition_by, match):
    ld.write(tmp_path, ROWS, partition_by="p")
    before = files_of(tmp_path)
    with pytest.raises((SchemaError, SchemaMismatchError), match=match):
        replaced(tmp_path, rows, partition_by)
    assert files_of(tmp_path) == before


def test_partition_columns_that_differ_in_case_are_the_tables_own(tmp_path):
    ld.write(tmp_path, ROWS, partition_by="p")
    assert ld.write(tmp_path, ROWS, "append", partition_by="P").version == 1


# --- properties of a table that is there already


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.enableChangeDataFeed": True},
        {"delta.enableChangeDataFeed": "true", "delta.checkpointInterval": 5},
        {"delta.feature.deletionVectors": "supported"},
        {"delta.minReaderVersion": 3},
    ],
)
def test_the_same_properties_may_be_given_again(tmp_path, properties):
    for version in range(2):
        done = ld.write(tmp_path, ROWS, "append", properties=properties)
        assert done.version == version


@pytest.mark.parametrize(
    "key", ["delta.appendOnly", "delta.feature.deletionVectors", "delta.minWriterVersion"]
)
@pytest.mark.parametrize("schema_mode", [None, "overwrite"])
def test_properties_that_differ_from_the_table_are_refused(tmp_path, key, schema_mode):
    ld.write(tmp_path, ROWS, partition_by="p")
    value = {"delta.appendOnly": True, "delta.minWriterVersion": 7}.get(key, "supported")
    how = {"schema_mode": schema_mode, "partition_by": ["x"] if schema_mode else None}
    with pytest.raises(ConfigError, match=f"{key} is not .*table.alter"):
        ld.write(tmp_path, ROWS, "overwrite", properties={key: value}, **how)
    with pytest.raises(ConfigError, match="no such table property"):
        ld.write(tmp_path, ROWS, "append", properties={"delta.apendOnly": "true"})


# --- arguments of the wrong kind


@pytest.mark.parametrize(
    ("how", "setting"),
    [
        ({"app_id": "a", "app_version": "1"}, "app_version"),
        ({"app_id": "a", "app_version": True}, "app_version"),
        ({"app_id": "a", "app_version": 2**63}, "app_version"),
        ({"app_id": 5, "app_version": 1}, "app_id"),
        ({"app_id": "", "app_version": 1}, "app_id"),
        ({"commit_metadata": "why"}, "commit_metadata"),
        ({"commit_metadata": {1: "why"}}, "commit_metadata"),
        ({"properties": ["delta.appendOnly"]}, "properties"),
        ({"partition_by": [1]}, "partition_by"),
        ({"options": {"codec": "zstd"}}, "options"),
    ],
)
def test_an_argument_of_the_wrong_kind_is_named(tmp_path, how, setting):
    with pytest.raises(ConfigError, match=f"^{setting}: "):
        ld.write(tmp_path, ROWS, **how)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("codec", "level"), [("snappy", 3), ("none", 1), ("gzip", 10), ("zstd", 99), ("brotli", -1)]
)
def test_invalid_compression_levels(tmp_path, codec, level):
    options = ld.WriteOptions(codec=codec, compression_level=level)
    with pytest.raises(ConfigError, match=f"^compression_level: {codec} has"):
        ld.write(tmp_path, ROWS, options=options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("given", [{"target_file_bytes": "1mb"}, {"row_group_rows": 2.5}])
def test_sizes_are_whole_numbers(given):
    with pytest.raises(ConfigError, match="must be an integer >= 1"):
        ld.WriteOptions(**given)


@pytest.mark.parametrize("metadata", [{"operation": "MINE"}, {"why": object()}])
def test_invalid_commit_metadata_is_refused_before_files(tmp_path, metadata):
    with pytest.raises(InvalidCommitError, match="commit metadata"):
        ld.write(tmp_path, ROWS, commit_metadata=metadata)
    assert not list(tmp_path.iterdir())


def test_application_versions_are_64_bit_integers(tmp_path):
    ld.write(tmp_path, ROWS, app_id="loader", app_version=2**63 - 1)
    lines = (tmp_path / "_delta_log" / f"{0:020}.json").read_text().splitlines()
    txn = next(action["txn"] for line in lines if (action := json.loads(line)).get("txn"))
    assert (txn["appId"], txn["version"]) == ("loader", 2**63 - 1)


# --- what another engine wrote into the metadata


def changed_by_hand(path, change):
    """Change the metadata of version 0, as no call of ours would."""
    log = path / "_delta_log" / f"{0:020}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        if "metaData" in action:
            change(action["metaData"])
    log.write_text("".join(json.dumps(action) + "\n" for action in actions))
    (path / "_delta_log" / f"{0:020}.crc").unlink()
    return ld.Table.open(path)


def test_a_table_of_other_files_than_parquet_is_not_written_to(tmp_path):
    ld.Table.create(tmp_path, "x bigint")
    table = changed_by_hand(tmp_path, lambda metadata: metadata["format"].update(provider="orc"))
    with pytest.raises(UnsupportedFeatureError, match="files of format orc"):
        table.write({"x": [1]})
    assert files_of(tmp_path) == []


def test_an_invalid_max_column_id_is_named(tmp_path):
    ld.Table.create(tmp_path, "x bigint", properties={"delta.columnMapping.mode": "name"})
    counter = {"delta.columnMapping.maxColumnId": "many"}
    table = changed_by_hand(tmp_path, lambda metadata: metadata["configuration"].update(counter))
    with pytest.raises(SchemaError, match="maxColumnId is 'many'"):
        table.write({"x": [1], "y": [2]}, schema_mode="merge")
    assert files_of(tmp_path) == []


@pytest.mark.parametrize("mode", ["name", "Name"])
def test_column_mapping_needs_protocol_and_property(tmp_path, mode):
    wanted = {"delta.columnMapping.mode": mode}
    ld.Table.create(tmp_path / "plain", "x bigint")
    plain = changed_by_hand(tmp_path / "plain", lambda m: m["configuration"].update(wanted))
    plain.write({"x": [1], "y": [2]}, schema_mode="merge")
    assert [dict(part.metadata) for part in plain.snapshot().schema] == [{}, {}]

    ld.Table.create(
        tmp_path / "mapped", "x bigint", properties={"delta.columnMapping.mode": "name"}
    )
    mapped = changed_by_hand(tmp_path / "mapped", lambda m: m["configuration"].update(wanted))
    mapped.alter.add_columns("`y z` bigint")
    assert mapped.snapshot().schema.fields[1].metadata["delta.columnMapping.id"] == 2


def test_format_options_are_kept(tmp_path):
    ld.Table.create(tmp_path, "x bigint")
    kept = {"provider": "parquet", "options": {"compression": "snappy"}}
    table = changed_by_hand(tmp_path, lambda metadata: metadata.update(format=kept))
    table.alter.set_description("for people")
    table.checkpoint()
    checksum = json.loads((tmp_path / "_delta_log" / f"{1:020}.crc").read_bytes())
    assert checksum["metadata"]["format"] == kept
    (tmp_path / "_delta_log" / f"{1:020}.json").unlink()
    assert table.snapshot().metadata.format_options == kept["options"]
