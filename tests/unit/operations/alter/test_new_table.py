"""The protocol and metadata of new tables: the lowest protocol, and invalid requests."""

from __future__ import annotations

import json
import sys

import deltalake
import pyarrow as pa
import pytest

from lazydelta.errors import (
    ColumnNotFoundError,
    ConfigError,
    PredicateError,
    SchemaError,
    SchemaMismatchError,
    UnsupportedFeatureError,
)
from lazydelta.operations.create import new_table
from lazydelta.schema import (
    ArrayType,
    PrimitiveType,
    StructField,
    StructType,
    from_arrow_schema,
    parse_columns,
    parse_schema,
)
from lazydelta.writer.enforcement import plan_enforcement

PLAIN = "id long not null, name string, day date"
LEGACY = {"appendOnly", "invariants"}


def _protocol(columns=PLAIN, **given):
    protocol, _ = new_table(parse_columns(columns), **given)
    readers = None if protocol.reader_features is None else set(protocol.reader_features)
    writers = None if protocol.writer_features is None else set(protocol.writer_features)
    return protocol.min_reader_version, protocol.min_writer_version, readers, writers


def _on(key):
    return {"properties": {f"delta.{key}": "true"}}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (1, 2, None, None)),
        ({"partition_by": ["day"]}, (1, 2, None, None)),
        ({"properties": {"mine": "x", "delta.checkpointInterval": 5}}, (1, 2, None, None)),
        (_on("appendOnly"), (1, 2, None, None)),
        ({"constraints": {"positive": "id > 0"}}, (1, 3, None, None)),
        (_on("enableChangeDataFeed"), (1, 4, None, None)),
        ({"columns": "a date, y int generated always as (year(a))"}, (1, 4, None, None)),
        ({"properties": {"delta.columnMapping.mode": "name"}}, (2, 5, None, None)),
        ({"properties": {"delta.columnMapping.mode": "id"}}, (2, 5, None, None)),
        ({"properties": {"delta.columnMapping.mode": "none"}}, (1, 2, None, None)),
        (
            {
                "properties": {
                    "delta.columnMapping.mode": "name",
                    "delta.enableChangeDataFeed": True,
                }
            },
            (2, 5, None, None),
        ),
        (_on("enableDeletionVectors"), (3, 7, {"deletionVectors"}, LEGACY | {"deletionVectors"})),
        (_on("enableTypeWidening"), (3, 7, {"typeWidening"}, LEGACY | {"typeWidening"})),
        (_on("enableInCommitTimestamps"), (1, 7, None, LEGACY | {"inCommitTimestamp"})),
        (_on("enableRowTracking"), (1, 7, None, LEGACY | {"rowTracking", "domainMetadata"})),
        (
            {"properties": {"delta.checkpointPolicy": "v2"}},
            (3, 7, {"v2Checkpoint"}, LEGACY | {"v2Checkpoint"}),
        ),
        ({"properties": {"delta.checkpointPolicy": "classic"}}, (1, 2, None, None)),
        ({"columns": "a timestamp_ntz"}, (3, 7, {"timestampNtz"}, LEGACY | {"timestampNtz"})),
        (
            {"columns": "a map<string, array<struct<b: timestamp_ntz>>>"},
            (3, 7, {"timestampNtz"}, LEGACY | {"timestampNtz"}),
        ),
        ({"columns": "a int default 1"}, (1, 7, None, LEGACY | {"allowColumnDefaults"})),
        (
            {"columns": "a timestamp_ntz", "constraints": {"c": "a IS NOT NULL"}},
            (3, 7, {"timestampNtz"}, LEGACY | {"timestampNtz", "checkConstraints"}),
        ),
        (
            {
                "properties": {
                    "delta.columnMapping.mode": "name",
                    "delta.enableDeletionVectors": "true",
                }
            },
            (
                3,
                7,
                {"columnMapping", "deletionVectors"},
                LEGACY | {"columnMapping", "deletionVectors"},
            ),
        ),
        (
            {"properties": {"delta.feature.deletionVectors": "supported"}},
            (3, 7, {"deletionVectors"}, LEGACY | {"deletionVectors"}),
        ),
        ({"properties": {"delta.feature.checkConstraints": "supported"}}, (1, 3, None, None)),
        ({"properties": {"delta.minWriterVersion": 4}}, (1, 4, None, None)),
        ({"properties": {"delta.minReaderVersion": "2"}}, (2, 5, None, None)),
        ({"properties": {"delta.minWriterVersion": 7}}, (1, 7, None, LEGACY)),
        ({"properties": {"delta.minReaderVersion": 3}}, (3, 7, set(), LEGACY)),
        (
            {"properties": {"delta.minWriterVersion": 2, "delta.enableChangeDataFeed": "true"}},
            (1, 4, None, None),
        ),
    ],
)
def test_the_protocol_is_the_lowest_that_is_enough(given, expected):
    assert _protocol(**given) == expected


def test_properties_that_change_the_protocol_are_not_stored():
    _, metadata = new_table(
        parse_columns(PLAIN),
        properties={
            "delta.feature.deletionVectors": "supported",
            "delta.minWriterVersion": 4,
            "delta.appendOnly": True,
            "mine": 1.5,
        },
    )
    assert metadata.configuration == {"delta.appendOnly": "true", "mine": "1.5"}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"delta.enableChangeDataFeed": "true"},
        {"delta.appendOnly": "true"},
        {"delta.columnMapping.mode": "name"},
        {"delta.logRetentionDuration": "interval 5 days"},
    ],
)
def test_deltalake_would_write_the_same(tmp_path, properties):
    columns = pa.schema([pa.field("id", pa.int64(), nullable=False), ("s", pa.string())])
    deltalake.DeltaTable.create(tmp_path, schema=columns, configuration=properties)
    log = (tmp_path / "_delta_log" / f"{0:020d}.json").read_text().splitlines()
    theirs = {key: value for line in log for key, value in json.loads(line).items()}
    protocol, metadata = new_table(
        parse_columns("id long not null, s string"), properties=properties
    )
    ours = metadata.to_json()
    assert protocol.to_json() == theirs["protocol"]
    assert ours["configuration"] == theirs["metaData"]["configuration"]
    assert ours["partitionColumns"] == theirs["metaData"]["partitionColumns"]
    assert ours["format"] == theirs["metaData"]["format"]
    schemas = [json.loads(m["schemaString"]) for m in (ours, theirs["metaData"])]
    for schema in schemas:  # physical names are random
        for field in schema["fields"]:
            field["metadata"].pop("delta.columnMapping.physicalName", None)
    assert schemas[0] == schemas[1]


def test_column_ids_of_another_table_are_dropped():
    mode = {"delta.columnMapping.mode": "name"}
    _, first = new_table(parse_columns(PLAIN), properties=mode)
    schema = parse_schema(first.schema_string, where="first")
    _, plain = new_table(schema)
    assert "columnMapping" not in plain.schema_string
    _, second = new_table(schema, properties=mode)
    names = [
        {
            f.metadata["delta.columnMapping.physicalName"]
            for f in parse_schema(m.schema_string, where="")
        }
        for m in (first, second)
    ]
    assert not names[0] & names[1]


def test_row_tracking_names_its_materialized_columns():
    _, metadata = new_table(parse_columns(PLAIN), **_on("enableRowTracking"))
    stored = dict(metadata.configuration)
    assert stored.pop("delta.enableRowTracking") == "true"
    assert sorted(stored) == [
        "delta.rowTracking.materializedRowCommitVersionColumnName",
        "delta.rowTracking.materializedRowIdColumnName",
    ]
    assert len(set(stored.values())) == 2


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"delta.chekpointInterval": 5}, "did you mean 'delta.checkpointInterval'?"),
        ({"delta.appendonly": "true"}, "did you mean 'delta.appendOnly'?"),
        ({"Delta.appendOnly": "true"}, "did you mean 'delta.appendOnly'?"),
        ({"delta.whatever": "true"}, "no such table property"),
        ({"delta.checkpointInterval": 0}, "an integer of at least 1, not '0'"),
        ({"delta.checkpointInterval": "ten"}, "an integer"),
        ({"delta.dataSkippingNumIndexedCols": -2}, "at least -1"),
        ({"delta.logRetentionDuration": "-1"}, "a non-negative interval"),
        ({"delta.deletedFileRetentionDuration": "interval -1 days"}, "non-negative"),
        ({"delta.deletedFileRetentionDuration": "a week"}, "a non-negative interval"),
        ({"delta.appendOnly": "yes"}, "true or false"),
        ({"delta.checkpointPolicy": "V2"}, "classic or v2"),
        ({"delta.columnMapping.mode": "Name"}, "none or name or id"),
        ({"delta.isolationLevel": "snapshot"}, "Serializable"),
        ({"delta.targetFileSize": "0"}, "a positive size"),
        ({"delta.feature.deletionVectors": "enabled"}, "supported"),
        ({"delta.constraints.a": "id > 0"}, "constraints=..."),
        ({"delta.columnMapping.maxColumnId": "5"}, "managed by the engine"),
        ({"delta.rowTracking.materializedRowIdColumnName": "x"}, "managed by the engine"),
        ({"delta.minReaderVersion": 4}, "newest versions are 3"),
        ({"delta.minWriterVersion": 8}, "7 for writers"),
        ({"mine": ["a"]}, "must be a string"),
    ],
)
def test_properties_that_are_refused(properties, reason):
    with pytest.raises(ConfigError) as caught:
        new_table(parse_columns(PLAIN), properties=properties)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("given", "features"),
    [
        (_on("enableIcebergCompatV1"), ("icebergCompatV1",)),
        (_on("enableIcebergCompatV2"), ("icebergCompatV2",)),
        ({"properties": {"delta.feature.catalogManaged": "supported"}}, ("catalogManaged",)),
        ({"properties": {"delta.feature.clustering": "supported"}}, ("clustering",)),
        ({"columns": "v variant"}, ("variantType",)),
    ],
)
def test_features_that_are_refused(given, features):
    with pytest.raises(UnsupportedFeatureError) as caught:
        _protocol(**given)
    assert (caught.value.features, caught.value.access) == (features, "upgrade")


@pytest.mark.parametrize(
    ("columns", "given", "reason"),
    [
        ("a int, A int", {}, "'a' and 'A' collide"),
        ("a int, a int", {}, "'a' and 'a' collide"),
        ("a struct<b: int, B: int>", {}, "'b' and 'B' in a collide"),
        ("a map<int, struct<b: int, B: int>>", {}, "in a.value collide"),
        ("`a b` int", {}, "has ' ' in its name: rename it, or enable column mapping"),
        ("s struct<`a,b`: int>", {}, "has ',' in its name"),
        ("a int, _change_type string", _on("enableChangeDataFeed"), "'_change_type' is reserved"),
        ("a int, b int", {"partition_by": ["a", "b"]}, "all columns are partition columns"),
        ("a int", {"partition_by": ["a"]}, "all columns are partition columns"),
        ("a int, b int", {"partition_by": ["a", "A"]}, "is given twice"),
        ("a struct<b: int>, c int", {"partition_by": ["a.b"]}, "is nested"),
        ("a struct<b: int>, c int", {"partition_by": ["a"]}, "cannot be a partition column"),
        ("a array<int>, c int", {"partition_by": ["a"]}, "cannot be a partition column"),
    ],
)
def test_columns_that_are_refused(columns, given, reason):
    with pytest.raises(SchemaError) as caught:
        _protocol(columns, **given)
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("columns", "error", "reason"),
    [
        ("a int generated always as (frobnicate(b)), b int", UnsupportedFeatureError, "'a'"),
        ("a int generated always as (nope)", SchemaMismatchError, "'nope'"),
        ("a int default frobnicate(1)", UnsupportedFeatureError, "default of column 'a'"),
        ("a int default 'x'", UnsupportedFeatureError, "default of column 'a'"),
        (
            "a int, b int generated always as (a + 1), c int generated always as (b + 1)",
            SchemaError,
            "'c' depends on 'b', which is a generated column too",
        ),
    ],
)
def test_expressions_that_are_refused(columns, error, reason):
    with pytest.raises(error) as caught:
        _protocol(columns)
    assert reason in str(caught.value)


@pytest.mark.parametrize("key", ["delta.generationExpression", "CURRENT_DEFAULT"])
def test_only_top_level_columns_have_expressions(key):
    inner = StructField("b", PrimitiveType("integer"), metadata={key: "1"})
    schema = StructType((StructField("a", StructType((inner,))),))
    with pytest.raises(SchemaError, match=r"a\.b: only top-level columns can have expressions"):
        new_table(schema)


_IDENTITY = {
    "delta.identity.start": 1,
    "delta.identity.step": 1,
    "delta.identity.allowExplicitInsert": False,
}


@pytest.mark.parametrize(
    ("kind", "metadata", "reason"),
    [
        ("integer", {}, "'a': its type must be BIGINT, not integer"),
        ("long", {"delta.identity.step": 0}, "step cannot be 0"),
        ("long", {"delta.identity.step": "1"}, "step must be a 64-bit integer"),
        ("long", {"delta.identity.start": 2**63}, "start must be a 64-bit integer"),
        ("long", {"delta.identity.start": None}, "start must be a 64-bit integer"),
        ("long", {"delta.identity.allowExplicitInsert": None}, "must be true or false"),
        (
            "long",
            {"CURRENT_DEFAULT": "1"},
            "a is an identity column, and cannot have an expression",
        ),
        ("long", {"delta.generationExpression": "1"}, "cannot have an expression"),
    ],
)
def test_identity_columns_that_are_refused(kind, metadata, reason):
    metadata = {key: value for key, value in (_IDENTITY | metadata).items() if value is not None}
    field = StructField("a", PrimitiveType(kind), metadata=metadata)
    with pytest.raises(SchemaError) as caught:
        new_table(StructType((field,)))
    assert reason in str(caught.value)


def test_nested_identity_columns_are_refused():
    inner = StructField("b", PrimitiveType("long"), metadata=_IDENTITY)
    with pytest.raises(SchemaError, match=r"'a\.b': only top-level columns"):
        new_table(StructType((StructField("a", StructType((inner,))),)))
    with pytest.raises(SchemaError, match="'b' cannot be a partition column"):
        new_table(StructType((inner, StructField("c", inner.type))), partition_by=["b"])


def test_unknown_identity_metadata_is_refused_by_name():
    metadata = _IDENTITY | {"delta.identity.concurrent.sequenceId": "s"}
    field = StructField("a", PrimitiveType("long"), metadata=metadata)
    with pytest.raises(UnsupportedFeatureError, match=r"sequenceId.*") as caught:
        new_table(StructType((field,)))
    assert caught.value.features == ("identityColumns",)


def test_high_water_marks_of_another_table_are_dropped():
    metadata = _IDENTITY | {"delta.identity.highWaterMark": 7}
    field = StructField("a", PrimitiveType("long"), metadata=metadata)
    _, metadata = new_table(StructType((field,)))
    assert parse_schema(metadata.schema_string, where="").fields[0].metadata == _IDENTITY


def test_special_characters_are_allowed_under_column_mapping():
    mode = {"delta.columnMapping.mode": "name"}
    _, metadata = new_table(parse_columns("`a b` int, `c,;{}()\n\t=` int"), properties=mode)
    assert parse_schema(metadata.schema_string, where="").names == ("a b", "c,;{}()\n\t=")


def test_partition_columns_are_spelt_as_in_the_schema():
    _, metadata = new_table(parse_columns(PLAIN), partition_by=["DAY"])
    assert metadata.partition_columns == ("day",)
    with pytest.raises(ColumnNotFoundError, match="no column 'dya'"):
        new_table(parse_columns(PLAIN), partition_by=["dya"])


def test_columns_with_statistics_must_exist():
    with pytest.raises(ColumnNotFoundError, match="nope"):
        new_table(parse_columns(PLAIN), properties={"delta.dataSkippingStatsColumns": "id, nope"})
    new_table(parse_columns(PLAIN), properties={"delta.dataSkippingStatsColumns": "ID, `day`"})


def test_an_unsupported_type():
    schema = parse_columns("a array<string>")
    odd = StructType((*schema.fields, StructField("b", ArrayType(PrimitiveType("interval year")))))
    with pytest.raises(SchemaError, match=r"'b\.element'.*'interval year'"):
        new_table(odd)


def test_a_table_needs_a_column():
    with pytest.raises(SchemaError, match="needs at least one column"):
        new_table(parse_schema('{"type":"struct","fields":[]}', where=""))


@pytest.mark.parametrize(
    ("constraints", "error", "reason"),
    [
        ({"c": "id >"}, PredicateError, "expected a column or a constant"),
        ({"c": ""}, PredicateError, "needs a condition"),
        ({"c": "nope > 1"}, ColumnNotFoundError, "no column 'nope'"),
        ({"": "id > 1"}, ConfigError, "name consists of letters"),
        ({"a.b": "id > 1"}, ConfigError, "name consists of letters"),
        ({"c": "id > 1", "C": "id > 2"}, ConfigError, "two constraints"),
    ],
)
def test_constraints_that_are_refused(constraints, error, reason):
    with pytest.raises(error) as caught:
        new_table(parse_columns(PLAIN), constraints=constraints)
    assert reason in str(caught.value)


def test_a_constraint_is_stored_in_lower_case():
    _, metadata = new_table(parse_columns(PLAIN), constraints={"Positive": " id > 0 "})
    assert metadata.configuration == {"delta.constraints.positive": "id > 0"}


def _calls(run):
    """Return the number of function calls of `call`: a measure of work independent of time."""
    count = 0

    def note(_frame, event, _argument):
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("schema_mode", [None, "merge"])
def test_work_grows_with_columns_and_not_with_their_square(schema_mode):
    def plan(columns):
        incoming = pa.schema([(f"c{n}", pa.int64()) for n in range(columns)])
        protocol, metadata = new_table(from_arrow_schema(incoming))
        plan_enforcement(
            table="t",
            protocol=protocol,
            metadata=metadata,
            schema=parse_schema(metadata.schema_string, where="t"),
            incoming=incoming.append(pa.field("new", pa.int64())) if schema_mode else incoming,
            schema_mode=schema_mode,
        )

    plan(10)  # imports
    assert _calls(lambda: plan(1000)) < 2.5 * _calls(lambda: plan(500))
