"""Properties, features and constraints of existing tables, and the protocol they require."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import (
    AlterationError,
    AppendOnlyError,
    ColumnNotFoundError,
    ConfigError,
    ConstraintViolationError,
    PredicateError,
    SchemaError,
    UnsupportedFeatureError,
)
from tests.unit.operations.alter.support import same_rows

LEGACY = {"appendOnly", "invariants"}


@pytest.fixture
def table(tmp_path):
    made = Table.create(tmp_path, "id long, n string")
    made.write(pa.table({"id": [1, 2], "n": ["a", None]}))
    return made


def features(table):
    protocol = table.snapshot().protocol
    return set(protocol.reader_features or ()), set(protocol.writer_features or ())


def versions(table):
    protocol = table.snapshot().protocol
    return protocol.min_reader_version, protocol.min_writer_version


@pytest.mark.parametrize(
    ("properties", "readers", "writers"),
    [
        ({"delta.checkpointInterval": 5, "mine": "x"}, set(), set()),
        ({"delta.appendOnly": "true"}, set(), set()),
        (
            {"delta.enableDeletionVectors": "true"},
            {"deletionVectors"},
            LEGACY | {"deletionVectors"},
        ),
        ({"delta.enableInCommitTimestamps": "true"}, set(), LEGACY | {"inCommitTimestamp"}),
        ({"delta.checkpointPolicy": "v2"}, {"v2Checkpoint"}, LEGACY | {"v2Checkpoint"}),
        ({"delta.feature.timestampNtz": "supported"}, {"timestampNtz"}, LEGACY | {"timestampNtz"}),
    ],
)
def test_a_property_adds_the_feature_it_requires(table, tmp_path, properties, readers, writers):
    result = table.alter.set_properties(properties)
    assert result.changed
    assert features(table) == (readers, writers)
    stored = table.snapshot().metadata.configuration
    assert {
        k: str(v) for k, v in properties.items() if "feature" not in k
    }.items() <= stored.items()
    table.write(pa.table({"id": [3], "n": ["c"]}))
    assert len(same_rows(tmp_path)) == 3


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({"delta.appendOnly": "true"}, (1, 2)),
        ({"delta.feature.checkConstraints": "supported"}, (1, 3)),
        ({"delta.enableChangeDataFeed": "true"}, (1, 4)),
        ({"delta.feature.generatedColumns": "supported"}, (1, 4)),
        ({"delta.columnMapping.mode": "name"}, (2, 5)),
        ({"delta.feature.identityColumns": "supported"}, (1, 6)),
        (
            {"delta.columnMapping.mode": "name", "delta.feature.identityColumns": "supported"},
            (2, 6),
        ),
    ],
)
def test_a_legacy_version_that_supports_the_feature_is_enough(
    table, tmp_path, properties, expected
):
    table.alter.set_properties(properties)
    assert versions(table) == expected
    assert features(table) == (set(), set())
    table.write(pa.table({"id": [3], "n": ["c"]}))
    assert len(same_rows(tmp_path)) == 3


def test_a_table_with_feature_lists_gets_the_name_of_the_feature(table):
    table.alter.set_properties({"delta.enableInCommitTimestamps": "true"})
    table.alter.add_constraint("positive", "id > 0")
    assert versions(table) == (1, 7)
    assert features(table) == (set(), LEGACY | {"inCommitTimestamp", "checkConstraints"})


def test_type_widening_is_a_property_too(table):
    table.alter.set_properties({"delta.enableTypeWidening": True})
    assert features(table) == ({"typeWidening"}, LEGACY | {"typeWidening"})


def test_a_preview_of_a_feature_is_enough(table, tmp_path):
    log = tmp_path / "_delta_log" / f"{2:020d}.json"
    names = ["typeWidening-preview"]
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7}
    protocol |= {"readerFeatures": names, "writerFeatures": names}
    log.write_text(json.dumps({"protocol": protocol}) + "\n")
    table.alter.set_properties({"delta.enableTypeWidening": True})
    assert features(table) == (set(names), set(names))


def test_features_add_up_and_stay(table):
    table.alter.set_properties({"delta.enableDeletionVectors": "true"})
    table.alter.set_properties({"delta.enableChangeDataFeed": "true"})
    table.alter.unset_properties("delta.enableDeletionVectors", "delta.enableChangeDataFeed")
    assert table.snapshot().metadata.configuration == {}
    both = LEGACY | {"deletionVectors", "changeDataFeed"}
    assert features(table) == ({"deletionVectors"}, both)


def test_in_commit_timestamps_record_their_enablement(table):
    table.alter.set_properties({"delta.enableInCommitTimestamps": "true"})
    stored = table.snapshot().metadata.configuration
    assert stored["delta.inCommitTimestampEnablementVersion"] == "2"
    assert table.history(1)[0].raw["inCommitTimestamp"] == int(
        stored["delta.inCommitTimestampEnablementTimestamp"]
    )


def test_an_append_only_table_keeps_its_rows(table):
    table.alter.set_properties({"delta.appendOnly": "true"})
    with pytest.raises(AppendOnlyError):
        table.write(pa.table({"id": [1], "n": ["x"]}), mode="overwrite")


@pytest.mark.parametrize(
    ("properties", "error", "reason"),
    [
        ({"delta.columnMapping.mode": "id"}, AlterationError, 'only "none" can change'),
        ({"delta.enableRowTracking": "true"}, AlterationError, "existing rows have no row ids"),
        ({"delta.enableIcebergCompatV2": "true"}, UnsupportedFeatureError, "icebergCompatV2"),
        ({"delta.dataSkippingStatsColumns": "id, nope"}, ColumnNotFoundError, "no column 'nope'"),
        ({"delta.dataSkippingStatsColumns": "id,, n"}, SchemaError, "cannot be 'id,, n'"),
        ({"delta.checkpointInterval": "0"}, ConfigError, "an integer of at least 1"),
        ({"delta.parquet.compression.codec": "zip"}, ConfigError, "snappy or zstd or gzip"),
        ({"delta.constraints.c": "id > 0"}, ConfigError, "add_constraint"),
        ({"delta.enableChangeDataFed": "true"}, ConfigError, "'delta.enableChangeDataFeed'"),
    ],
)
def test_properties_that_are_refused(table, properties, error, reason):
    with pytest.raises(error) as caught:
        table.alter.set_properties(properties)
    assert reason in str(caught.value)
    assert table.version == 1


def test_column_mapping_cannot_be_disabled(table):
    table.alter.set_properties({"delta.columnMapping.mode": "name"})
    for change in (
        lambda: table.alter.set_properties({"delta.columnMapping.mode": "none"}),
        lambda: table.alter.set_properties({"delta.columnMapping.mode": "id"}),
        lambda: table.alter.unset_properties("delta.columnMapping.mode"),
    ):
        with pytest.raises(AlterationError):
            change()
    assert table.version == 2


def test_row_tracking_is_enabled_on_an_empty_table(tmp_path):
    table = Table.create(tmp_path, "id long")
    table.alter.set_properties({"delta.enableRowTracking": "true"})
    table.write(pa.table({"id": [1, 2]}))
    stored = table.snapshot().metadata.configuration
    assert "delta.rowTracking.materializedRowIdColumnName" in stored
    with table.scan().file_batches(all_fields=True) as batches:
        assert [batch.column("base_row_id").to_pylist() for batch in batches] == [[0]]
    table.alter.set_properties({"delta.enableRowTracking": "false"})
    table.alter.set_properties({"delta.enableRowTracking": "true"})  # its files have ids
    assert stored == table.snapshot().metadata.configuration


@pytest.mark.parametrize(
    ("keys", "reason"),
    [
        (["delta.appendOnly"], "the table has no such property; it has: mine"),
        (["delta.appendOnyl"], "did you mean 'delta.appendOnly'?"),
        (["delta.columnMapping.maxColumnId"], "managed by the engine"),
        (["delta.constraints.c"], "drop_constraint"),
        (["mine", "yours"], "no such property"),
    ],
)
def test_what_cannot_be_unset(table, keys, reason):
    table.alter.set_properties({"mine": "x"})
    with pytest.raises(ConfigError) as caught:
        table.alter.unset_properties(*keys)
    assert reason in str(caught.value)
    assert table.version == 2


def test_names_and_descriptions(table):
    table.alter.set_name("trips")
    table.alter.set_description("of taxis")
    metadata = table.snapshot().metadata
    assert (metadata.name, metadata.description) == ("trips", "of taxis")
    operations = [info.operation for info in table.history(2)]
    assert operations == ["SET TABLE DESCRIPTION", "SET TABLE NAME"]


def test_the_protocol_is_upgraded_and_never_downgraded(table):
    assert table.alter.upgrade_protocol(writer=4).changed
    assert features(table) == (set(), set())
    assert table.alter.upgrade_protocol(reader=3).changed
    spelt_out = LEGACY | {"checkConstraints", "changeDataFeed", "generatedColumns"}
    assert features(table) == (set(), spelt_out)
    assert not table.alter.upgrade_protocol(1, 1).changed
    with pytest.raises(ConfigError, match="newest versions"):
        table.alter.upgrade_protocol(writer=8)


def test_features_by_name(table):
    assert table.alter.add_feature("deletionVectors", "domainMetadata").changed
    assert features(table)[1] == LEGACY | {"deletionVectors", "domainMetadata"}
    for name in ("clustering", "icebergCompatV1", "nonsense"):
        with pytest.raises(UnsupportedFeatureError, match=f"cannot upgrade .*{name}.*Leave out"):
            table.alter.add_feature(name)


# --- constraints -----------------------------------------------------------------------------


def test_a_constraint_is_enforced_on_new_rows(table, tmp_path):
    table.alter.add_constraint("Positive", "id > 0")
    assert table.snapshot().metadata.configuration == {"delta.constraints.positive": "id > 0"}
    assert versions(table) == (1, 3)
    assert features(table) == (set(), set())
    with pytest.raises(ConstraintViolationError, match="positive"):
        table.write(pa.table({"id": [-1], "n": ["x"]}))
    table.alter.drop_constraint("POSITIVE")
    table.write(pa.table({"id": [-1], "n": ["x"]}))
    assert len(same_rows(tmp_path)) == 3


@pytest.mark.parametrize(
    ("expression", "row"),
    [
        ("id < 2", "id=2"),
        ("n = 'a'", "n=None"),  # NULL is a violation
        ("n IS NOT NULL AND id > 0", "id=2, n=None"),
        ("length(n) > 0", "n=None"),
        ("id * 2 + 1 < 5", "id=2"),  # more than a filter can say
        ("id > 2", "violated by 2 of 2 rows"),
    ],
)
def test_existing_rows_are_checked(table, expression, row):
    with pytest.raises(ConstraintViolationError) as caught:
        table.alter.add_constraint("c", expression)
    assert row in str(caught.value)
    assert expression in str(caught.value)
    assert table.version == 1


@pytest.mark.parametrize(
    ("name", "expression", "error"),
    [
        ("c", "id >", PredicateError),
        ("c", "  ", PredicateError),
        ("c", "frobnicate(id) > 1", PredicateError),
        ("c", "nope > 1", ColumnNotFoundError),
        ("a-b", "id > 0", ConfigError),
        ("taken", "id > 0", AlterationError),
    ],
)
def test_constraints_that_are_refused(table, name, expression, error):
    table.alter.add_constraint("taken", "id > 0")
    with pytest.raises(error):
        table.alter.add_constraint(name, expression)
    assert table.version == 2


def test_dropping_a_missing_constraint(table):
    with pytest.raises(AlterationError, match="existing: none"):
        table.alter.drop_constraint("c")


def test_a_mapping_mode_without_protocol_support(table, tmp_path):
    log = tmp_path / "_delta_log" / f"{2:020d}.json"
    metadata = table.snapshot().metadata.to_json()
    metadata["configuration"]["delta.columnMapping.mode"] = "name"
    log.write_text(json.dumps({"metaData": metadata}) + "\n")
    with pytest.raises(AlterationError, match="does not support column mapping"):
        table.alter.set_comment("id", "x")
