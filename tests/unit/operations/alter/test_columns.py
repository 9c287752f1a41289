"""Changes of columns: rows written before and after them, as both engines read them."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lazydelta import Table
from lazydelta.errors import (
    AlterationError,
    ColumnNotFoundError,
    ConstraintViolationError,
    InvalidCommitError,
    SchemaError,
)
from lazydelta.schema import PrimitiveType, StructField
from tests.unit.operations.alter.support import rows, same_rows

LONG = PrimitiveType("long")
MAPPED = {"delta.columnMapping.mode": "name"}


def make(path, columns="id long, name string", data=(), **how):
    table = Table.create(path, columns, **how)
    fill(table, *data)
    return table


def fill(table, *data):
    if data:
        table.write(pa.Table.from_pylist(list(data), schema=table.to_arrow().schema))


def maximum(table):
    return int(table.snapshot().metadata.configuration["delta.columnMapping.maxColumnId"])


def physical(table):
    found = table.snapshot().schema
    return {f.name: f.metadata["delta.columnMapping.physicalName"] for f in found}


@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["plain", "mapped"])
def test_a_new_column_is_null_in_old_rows(tmp_path, properties):
    table = make(tmp_path, data=[{"id": 1, "name": "a"}], properties=properties)
    result = table.alter.add_columns("extra int, more struct<x: string>")
    assert (result.version, result.changed, result.operation) == (2, True, "ADD COLUMNS")
    fill(table, {"id": 2, "name": "b", "extra": 5, "more": {"x": "y"}})
    assert same_rows(tmp_path) == [
        {"id": 1, "name": "a", "extra": None, "more": None},
        {"id": 2, "name": "b", "extra": 5, "more": {"x": "y"}},
    ]
    assert rows(tmp_path, version=1) == [{"id": 1, "name": "a"}]


@pytest.mark.parametrize("properties", [{}, MAPPED], ids=["plain", "mapped"])
def test_nested_fields_are_added_through_structs_lists_and_maps(tmp_path, properties):
    columns = "id int, s struct<a: int>, l array<struct<b: int>>, m map<string, struct<c: int>>"
    old = {"id": 1, "s": {"a": 1}, "l": [{"b": 2}], "m": [("k", {"c": 3})]}
    table = make(tmp_path, columns, [old], properties=properties)
    table.alter.add_columns({"s.z": "string", "l.element.z": "int", "m.value.z": "array<int>"})
    assert str(table.snapshot().schema) == (
        "struct<id: integer, s: struct<a: integer, z: string>, "
        "l: array<struct<b: integer, z: integer>>, "
        "m: map<string,struct<c: integer, z: array<integer>>>>"
    )
    new = {
        "id": 2,
        "s": {"a": 1, "z": "x"},
        "l": [{"b": 2, "z": 9}],
        "m": [("k", {"c": 3, "z": [1]})],
    }
    fill(table, new)
    assert rows(tmp_path) == [
        {
            "id": 1,
            "s": {"a": 1, "z": None},
            "l": [{"b": 2, "z": None}],
            "m": [("k", {"c": 3, "z": None})],
        },
        new,
    ]


def test_columns_are_added_first_or_after_another(tmp_path):
    table = make(tmp_path, data=[{"id": 1, "name": "a"}])
    table.alter.add_columns("x int, y int", after="id")
    table.alter.add_columns("first int", first=True)
    assert table.snapshot().schema.names == ("first", "id", "x", "y", "name")
    assert same_rows(tmp_path) == [{"first": None, "id": 1, "x": None, "y": None, "name": "a"}]


@pytest.mark.parametrize(
    ("columns", "error", "reason"),
    [
        ("x int not null", AlterationError, "must be nullable"),
        ("x int default 1", AlterationError, "would not have its value"),
        ("x int generated always as (id)", AlterationError, "would not have its value"),
        ("ID int", SchemaError, "column id already exists"),
        ("`a b` int", SchemaError, "enable column mapping"),
        ({"s.x": "int"}, ColumnNotFoundError, "no column 's'"),
        ({"id.x": "int"}, ColumnNotFoundError, "id is long"),
        ({"tags.x": "int"}, ColumnNotFoundError, "tags.element.<field>"),
        ({"tags.element": "int"}, ColumnNotFoundError, "tags.element"),
        ({"a b": "int"}, SchemaError, "quote special characters with backticks"),
        ({"x": "money"}, SchemaError, "expected a type"),
    ],
)
def test_columns_that_are_not_added(tmp_path, columns, error, reason):
    table = make(tmp_path, "id long, tags array<struct<t: int>>")
    with pytest.raises(error) as caught:
        table.alter.add_columns(columns)
    assert reason in str(caught.value)
    assert table.version == 0


@pytest.mark.parametrize("mode", ["name", "id"])
def test_a_renamed_column_keeps_its_rows(tmp_path, mode):
    properties = {"delta.columnMapping.mode": mode}
    columns = "id long, name string, s struct<a: int>"
    first = {"id": 1, "name": "a", "s": {"a": 1}}
    table = make(tmp_path, columns, [first], partition_by=["name"], properties=properties)
    before = physical(table)
    table.alter.rename_column("id", "the key")
    table.alter.rename_column("name", "label")  # a partition column
    table.alter.rename_column("s.a", "b")
    fill(table, {"the key": 2, "label": "b", "s": {"b": 2}})
    assert same_rows(tmp_path) == [
        {"the key": 1, "label": "a", "s": {"b": 1}},
        {"the key": 2, "label": "b", "s": {"b": 2}},
    ]
    assert rows(tmp_path, version=1) == [first]
    assert list(physical(table).values()) == list(before.values())
    assert table.snapshot().partition_columns == ("label",)
    assert [row["the key"] for row in table.scan("label = 'b'").to_arrow().to_pylist()] == [2]


def test_a_dropped_column_does_not_come_back(tmp_path):
    columns = "id long, name string, s struct<a: int, b: int>"
    old = {"id": 1, "name": "secret", "s": {"a": 1, "b": 2}}
    table = make(tmp_path, columns, [old], properties=MAPPED)
    before, last = physical(table), maximum(table)
    table.alter.drop_column("name")
    table.alter.drop_column("s.b")
    assert same_rows(tmp_path) == [{"id": 1, "s": {"a": 1}}]
    assert maximum(table) == last
    table.alter.add_columns({"name": "string", "s.b": "int"})
    assert maximum(table) == last + 2
    assert physical(table)["name"] != before["name"]
    fill(table, {"id": 2, "s": {"a": 3, "b": 4}, "name": "new"})
    assert same_rows(tmp_path) == [
        {"id": 1, "s": {"a": 1, "b": None}, "name": None},
        {"id": 2, "s": {"a": 3, "b": 4}, "name": "new"},
    ]
    assert rows(tmp_path, version=1) == [old]


def test_column_mapping_is_enabled_with_existing_files(tmp_path):
    columns = "id long, s struct<a: int, l: array<struct<q: int>>>"
    old = {"id": 1, "s": {"a": 1, "l": [{"q": 1}]}}
    table = make(tmp_path, columns, [old])
    table.alter.set_properties(MAPPED)
    assert (maximum(table), physical(table)) == (5, {"id": "id", "s": "s"})
    table.alter.rename_column("id", "key")
    table.alter.rename_column("s.l.element.q", "r")
    table.alter.add_columns("id string")
    assert physical(table)["id"] not in ("id", "key")
    fill(table, {"key": 2, "s": {"a": 2, "l": [{"r": 2}]}, "id": "new"})
    assert same_rows(tmp_path) == [
        {"key": 1, "s": {"a": 1, "l": [{"r": 1}]}, "id": None},
        {"key": 2, "s": {"a": 2, "l": [{"r": 2}]}, "id": "new"},
    ]


@pytest.mark.parametrize("verb", ["rename_column", "drop_column"])
def test_without_mapping_names_cannot_change(tmp_path, verb):
    table = make(tmp_path)
    arguments = ("name", "label") if verb == "rename_column" else ("name",)
    with pytest.raises(AlterationError, match="Enable column mapping first"):
        getattr(table.alter, verb)(*arguments)
    assert table.version == 0


USERS = (
    "id long, day date, y int generated always as (year(day)), z int, s struct<a: int>, p int, "
    "`year` int"
)


@pytest.mark.parametrize(
    ("column", "user"),
    [
        ("id", "the constraint 'positive'"),
        ("s.a", "the constraint 'nested'"),
        ("s", "the constraint 'nested'"),
        ("day", "the generation expression of column 'y'"),
        ("z", "the property delta.dataSkippingStatsColumns"),
    ],
)
@pytest.mark.parametrize("verb", ["rename", "drop"])
def test_a_column_in_use_is_neither_renamed_nor_dropped(tmp_path, column, user, verb):
    table = make(
        tmp_path,
        USERS,
        properties={**MAPPED, "delta.dataSkippingStatsColumns": "z"},
        constraints={"Positive": "ID > 0", "nested": "s.a is null or s.a > 1"},
        partition_by=["p"],
    )
    with pytest.raises(AlterationError) as caught:
        if verb == "rename":
            table.alter.rename_column(column, "other")
        else:
            table.alter.drop_column(column)
    assert user in str(caught.value)
    with pytest.raises(AlterationError, match="partitioned by it"):
        table.alter.drop_column("p")
    table.alter.drop_column("`year`")  # only a function of that name is used


def test_a_clustering_column_is_not_dropped(tmp_path):
    table = make(tmp_path, "id long, n long, o long", properties=MAPPED)
    name = physical(table)["id"]
    log = tmp_path / "_delta_log"
    (log / f"{1:020d}.json").write_text(
        '{"protocol":{"minReaderVersion":2,"minWriterVersion":7,"writerFeatures":'
        '["columnMapping","clustering","domainMetadata"]}}\n'
        '{"domainMetadata":{"domain":"delta.clustering","configuration":'
        f'"{{\\"clusteringColumns\\":[[\\"{name}\\"]]}}","removed":false}}}}\n'
    )
    with pytest.raises(AlterationError, match="clustered by it"):
        table.alter.drop_column("id")
    table.alter.rename_column("id", "key")  # the domain has its physical name
    table.alter.drop_column("n")
    assert table.snapshot().schema.names == ("key", "o")


@pytest.mark.parametrize(
    ("verb", "arguments", "error", "reason"),
    [
        ("rename_column", ("nope", "x"), ColumnNotFoundError, "no column 'nope'"),
        ("rename_column", ("id", "NAME"), SchemaError, "column name already exists"),
        ("rename_column", ("id", ""), SchemaError, "has an empty name"),
        ("drop_column", ("nope",), ColumnNotFoundError, "no column 'nope'"),
        ("drop_column", ("nmae",), ColumnNotFoundError, "did you mean 'name'?"),
        ("drop_column", ("s.a",), SchemaError, "is the only field of its struct"),
        ("set_comment", ("nope", "x"), ColumnNotFoundError, "no column 'nope'"),
        ("change_type", ("id", "double"), AlterationError, "Set delta.enableTypeWidening"),
    ],
)
def test_invalid_changes_are_refused(tmp_path, verb, arguments, error, reason):
    table = make(tmp_path, "id long, name string, s struct<a: int>", properties=MAPPED)
    with pytest.raises(error) as caught:
        getattr(table.alter, verb)(*arguments)
    assert reason in str(caught.value)
    assert table.version == 0


def test_the_last_data_column_stays(tmp_path):
    table = make(tmp_path, "id long, p int", partition_by=["p"], properties=MAPPED)
    with pytest.raises(AlterationError, match="only partition columns would remain"):
        table.alter.drop_column("id")


def test_nulls_are_allowed_and_forbidden(tmp_path):
    table = make(tmp_path, "id long not null, name string, s struct<a: int>")
    fill(table, {"id": 1, "name": "a", "s": None}, {"id": 2, "name": None, "s": {"a": 1}})
    with pytest.raises(ConstraintViolationError, match=r"column name has nulls.*name=None"):
        table.alter.set_nullable("name", nullable=False)
    table.alter.set_nullable("s.a", nullable=False)  # a null struct has no `a` to be null
    table.alter.set_nullable("id")
    assert str(table.snapshot().schema) == (
        "struct<id: long, name: string, s: struct<a: integer not null>>"
    )
    with pytest.raises(ConstraintViolationError):
        fill(table, {"id": 3, "name": "c", "s": {"a": None}})
    fill(table, {"id": None, "name": "d", "s": None})
    with pytest.raises(ConstraintViolationError, match="column id has nulls"):
        table.alter.set_nullable("id", nullable=False)
    assert table.version == 4
    assert len(same_rows(tmp_path)) == 3


def test_not_null_inside_lists_is_refused(tmp_path):
    table = make(tmp_path, "id int, l array<struct<a: int>>")
    with pytest.raises(AlterationError, match="inside lists and maps"):
        table.alter.set_nullable("l.element.a", nullable=False)


def test_comments_and_defaults(tmp_path):
    table = make(tmp_path, "id long, name string", [{"id": 1, "name": "a"}])
    table.alter.set_comment("id", "the key")
    table.alter.set_default("name", "'x'")
    fields = {f.name: f.metadata for f in table.snapshot().schema}
    assert fields == {"id": {"comment": "the key"}, "name": {"CURRENT_DEFAULT": "'x'"}}
    assert "allowColumnDefaults" in table.snapshot().protocol.writer_features
    table.write(pa.table({"id": pa.array([2], pa.int64())}))
    assert same_rows(tmp_path) == [{"id": 1, "name": "a"}, {"id": 2, "name": "x"}]
    table.alter.set_comment("id", None)
    table.alter.set_default("name", None)
    assert all(f.metadata == {} for f in table.snapshot().schema)


WIDER = [
    ("tinyint", "smallint", 1),
    ("smallint", "int", 1),
    ("int", "bigint", 1),
    ("int", "double", 1),
    ("float", "double", 1.5),
    ("decimal(5,2)", "decimal(10,4)", 2),
    ("int", "decimal(12,2)", 3),
    ("bigint", "decimal(20,0)", 3),
]


@pytest.mark.parametrize(("old", "new", "value"), WIDER)
def test_a_type_is_widened(tmp_path, old, new, value):
    on = {"delta.enableTypeWidening": "true"}
    table = make(tmp_path, f"id int, v {old}", [{"id": 1, "v": value}], properties=on)
    table.alter.change_type("v", new)
    fill(table, {"id": 2, "v": value})
    assert rows(tmp_path) == [{"id": 1, "v": value}, {"id": 2, "v": value}]
    field = table.snapshot().schema.fields[1]
    before = Table.open(tmp_path).snapshot(1).schema.fields[1]
    assert field.metadata == {
        "delta.typeChanges": [{"fromType": str(before.type), "toType": str(field.type)}]
    }


def test_types_are_widened_inside_lists_and_maps_and_once_more(tmp_path):
    on = {"delta.enableTypeWidening": "true"}
    columns = "l array<int>, m map<smallint, array<struct<a: tinyint>>>"
    old = {"l": [1], "m": [(1, [{"a": 1}])]}
    table = make(tmp_path, columns, [old], properties=on)
    table.alter.change_type("l.element", "bigint")
    table.alter.change_type("m.key", "int")
    table.alter.change_type("m.key", "bigint")
    table.alter.change_type("m.value.element.a", "int")
    schema = table.snapshot().schema
    assert str(schema) == "struct<l: array<long>, m: map<long,array<struct<a: integer>>>>"
    assert [f.metadata.get("delta.typeChanges") for f in schema] == [
        [{"fromType": "integer", "toType": "long", "fieldPath": "element"}],
        [
            {"fromType": "short", "toType": "integer", "fieldPath": "key"},
            {"fromType": "integer", "toType": "long", "fieldPath": "key"},
        ],
    ]
    assert rows(tmp_path) == [old]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("bigint", "int"),
        ("int", "float"),
        ("bigint", "double"),
        ("int", "string"),
        ("int", "decimal(10,1)"),
        ("decimal(5,2)", "decimal(5,3)"),
        ("date", "timestamp"),
        ("double", "float"),
        ("string", "binary"),
    ],
)
def test_types_that_cannot_be_widened(tmp_path, old, new):
    table = make(tmp_path, f"id int, v {old}", properties={"delta.enableTypeWidening": "true"})
    with pytest.raises(AlterationError, match="cannot be widened"):
        table.alter.change_type("v", new)


def test_a_change_without_effect_commits_nothing(tmp_path):
    table = make(tmp_path, "id long comment 'c', n long", properties=MAPPED)
    results = [
        table.alter.set_comment("id", "c"),
        table.alter.set_nullable("id"),
        table.alter.rename_column("id", "id"),
        table.alter.set_default("n", None),
        table.alter.change_type("n", "bigint"),
        table.alter.set_properties(MAPPED),
        table.alter.unset_properties("delta.appendOnly", missing_ok=True),
        table.alter.drop_constraint("c", missing_ok=True),
        table.alter.add_feature("columnMapping"),
        table.alter.upgrade_protocol(1, 2),
        table.alter.set_name(None),
        table.alter.add_columns([]),
    ]
    assert [(result.version, result.changed) for result in results] == [(0, False)] * len(results)
    assert table.version == 0


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda alter: alter.set_name(5), InvalidCommitError),
        (lambda alter: alter.set_description(["text"]), InvalidCommitError),
        (lambda alter: alter.set_comment("id", 5), SchemaError),
        (lambda alter: alter.set_default("id", 5), SchemaError),
        (lambda alter: alter.set_nullable("id", None), SchemaError),
        (lambda alter: alter.set_comment("id", "\ud800"), SchemaError),
    ],
)
def test_invalid_field_metadata_is_refused(tmp_path, change, error):
    table = make(tmp_path)
    with pytest.raises(error, match=r"string|bool|not of type str|JSON"):
        change(table.alter)
    assert table.version == 0
    with pytest.raises(InvalidCommitError, match=r"metaData\.name"):
        Table.create(tmp_path / "new", "id long", name=5)
    with pytest.raises(SchemaError, match="CURRENT_DEFAULT must be a string, not 5"):
        Table.create(tmp_path / "new", [StructField("n", LONG, metadata={"CURRENT_DEFAULT": 5})])


@pytest.mark.parametrize(
    "kind", ["array<struct<a: int, b: void>>", "map<string, void>", "struct<>"]
)
def test_a_void_only_column_is_refused(tmp_path, kind):
    table = make(tmp_path)
    with pytest.raises(SchemaError, match=r"give (it|one) a type"):
        table.alter.add_columns(f"n {kind}")
    with pytest.raises(SchemaError, match=r"give (it|one) a type"):
        Table.create(tmp_path / "new", f"id long, n {kind}")
    assert table.alter.add_columns("n void").changed  # files leave this one out


def test_a_generated_column_has_no_default(tmp_path):
    made = "id long, twice long generated always as (id * 2)"
    table = make(tmp_path, made)
    with pytest.raises(AlterationError, match="its values are generated"):
        table.alter.set_default("twice", "5")
    table.alter.set_default("twice", None)
    assert table.version == 0
    both = {"delta.generationExpression": "id * 2", "CURRENT_DEFAULT": "5"}
    fields = [StructField("id", LONG), StructField("twice", LONG, metadata=both)]
    with pytest.raises(SchemaError, match="twice is generated, and cannot have a default"):
        Table.create(tmp_path / "new", fields)
