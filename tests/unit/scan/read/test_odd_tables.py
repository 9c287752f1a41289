"""Unusual and invalid tables: the right rows, or a typed error."""

from __future__ import annotations

import json
from itertools import permutations, product

import numpy as np
import pyarrow as pa
import pytest

from lazydelta import ReadOptions, errors
from tests.unit.scan.read.tables import Rows, field, with_ids

VOID_LIST = {"type": "array", "elementType": "void", "containsNull": False}
VOID_KEYS = {"type": "map", "keyType": "void", "valueType": "long", "valueContainsNull": True}
PARTS = {"type": "struct", "fields": [field("x", "long")]}
LIST = {"type": "array", "elementType": "long", "containsNull": True}


# --- types


@pytest.mark.parametrize("kind", ["void", VOID_LIST])
def test_a_not_null_void_column_is_null(tmp_path, kind):
    fields = [field("id", "long"), field("v", kind, nullable=False)]
    made = Rows(tmp_path / "t", fields).file("f.parquet", pa.table({"id": [1]}))
    assert made.rows() == [{"id": 1, "v": None}]


def test_only_a_map_with_void_keys_is_refused(tmp_path):
    fields = [field("id", "long"), field("m", VOID_KEYS)]
    made = Rows(tmp_path / "t", fields).file("f.parquet", pa.table({"id": [1]}))
    with pytest.raises(errors.SchemaError, match="column 'm': map<void,long>"):
        made.rows()
    assert made.rows(columns=["id"]) == [{"id": 1}]


def test_a_date_outside_the_range_of_pandas(tmp_path):
    fields = [field("id", "long"), field("d", "date")]
    rows = pa.table({"id": [1], "d": pa.array([2_932_897], pa.int32()).view(pa.date32())})
    table = Rows(tmp_path / "t", fields).file("f.parquet", rows).open()
    with pytest.raises(errors.SchemaError, match=r"pandas cannot hold .*to_arrow\(\)"):
        table.to_pandas()
    assert table.scan(columns=["id"]).to_pandas().shape == (1, 1)
    assert table.to_arrow().column("d").cast(pa.int32()).to_pylist() == [2_932_897]


# --- partition columns


@pytest.mark.parametrize("kind", ["string collate UTF8_LCASE", "varchar(5)", "char(5)"])
def test_partition_by_every_string_type(tmp_path, kind):
    fields = [field("id", "long"), field("p", kind)]
    made = Rows(tmp_path / "t", fields, partition_columns=["p"])
    for at, value in enumerate(["a", " A ", None, ""]):
        made.file(f"{at}.parquet", pa.table({"id": [at]}), partition={"p": value})
    found = {row["id"]: row["p"] for row in made.rows()}
    assert found == {0: "a", 1: " A ", 2: None, 3: None}


@pytest.mark.parametrize("kind", [PARTS, LIST, "variant"])
def test_a_partition_column_of_a_nested_type_is_refused(tmp_path, kind):
    fields = [field("id", "long"), field("p", kind)]
    made = Rows(tmp_path / "t", fields, partition_columns=["p"])
    made.file("f.parquet", pa.table({"id": [1]}), partition={"p": None})
    with pytest.raises(
        errors.SchemaError, match=r"t: partition column 'p' is .*cannot be a partition value"
    ):
        made.rows("id = 1", columns=["id"])


NUMBERS = [field("id", "long"), field("p", "double")]


def numbers_table(path, values, counted):
    """Return a table with one file per partition value, some with row counts."""
    made = Rows(path, NUMBERS, partition_columns=["p"])
    for at, (value, is_counted) in enumerate(zip(values, counted, strict=True)):
        action = {"stats": json.dumps({"numRecords": 1})} if is_counted else {}
        rows = pa.table({"id": [at]})
        made.file(f"{at}.parquet", rows, partition={"p": value}, action=action)
    return made.open()


@pytest.mark.parametrize("values", list(permutations(["NaN", "1.0", "Infinity"])))
def test_nan_is_the_maximum_partition_value(tmp_path, values):
    for number, counted in enumerate(product([False, True], repeat=3)):
        found = numbers_table(tmp_path / str(number), values, counted).scan().min_max("p")
        assert (found.min, str(found.max)) == (1.0, "nan"), counted


@pytest.mark.parametrize("counted", list(product([False, True], repeat=2)))
def test_nan_alone_is_also_the_minimum(tmp_path, counted):
    found = numbers_table(tmp_path / "t", ["NaN", "NaN"], counted).scan().min_max("p")
    assert str(found.min) == str(found.max) == "nan"


# --- column mapping


def mapped(path, mode, *fields, columns, ids):
    made = Rows(path, list(fields), configuration={"delta.columnMapping.mode": mode})
    rows = pa.table(columns)
    return made.file("f.parquet", rows.cast(with_ids(rows.schema, ids)))


def test_two_columns_with_one_id_are_refused_in_id_mode(tmp_path):
    twins = [field(n, "long", physical=n, column_id=1) for n in "ab"]
    columns, ids = {"a": [1], "b": [2]}, {"a": 1, "b": 2}
    made = mapped(tmp_path / "id", "id", *twins, columns=columns, ids=ids)
    with pytest.raises(errors.SchemaError, match=r"id: fields 'a' and 'b' share .*id 1"):
        made.rows()
    by_name = mapped(tmp_path / "name", "name", *twins, columns=columns, ids=ids)
    assert by_name.rows() == [{"a": 1, "b": 2}]


@pytest.mark.parametrize("column_id", [None, "1", 1.5])
def test_a_column_without_an_id_is_refused_in_id_mode(tmp_path, column_id):
    """Otherwise it would read as a missing column: all null."""
    a = field("a", "long", physical="a", column_id=column_id)
    made = mapped(tmp_path / "id", "id", a, columns={"a": [1]}, ids={"a": 1})
    with pytest.raises(errors.SchemaError, match=r"field 'a' has no .*columnMapping.id"):
        made.rows()
    by_name = mapped(tmp_path / "name", "name", a, columns={"a": [1]}, ids={"a": 1})
    assert by_name.rows() == [{"a": 1}]


@pytest.mark.parametrize("mode", ["name", "id"])
def test_two_columns_with_one_physical_name_are_refused(tmp_path, mode):
    twins = [field(n, "long", physical="a", column_id=at) for at, n in enumerate("ab", 1)]
    made = mapped(tmp_path / "t", mode, *twins, columns={"a": [1]}, ids={"a": 1})
    with pytest.raises(errors.SchemaError, match=r"t: .* share a physical name"):
        made.rows()


def test_two_nested_columns_with_one_physical_name_are_refused(tmp_path):
    twins = [field(n, "long", physical="a", column_id=at) for at, n in enumerate("ab", 2)]
    outer = field("s", {"type": "struct", "fields": twins}, physical="s", column_id=1)
    inner = pa.array([{"a": 1}])
    made = mapped(tmp_path / "t", "name", outer, columns={"s": inner}, ids={"s": 1})
    with pytest.raises(errors.SchemaError, match="share a physical name"):
        made.rows()


def test_the_column_mapping_mode_is_case_insensitive(tmp_path):
    """Spark stores the property as typed and ignores case."""
    a = field("a", "long", physical="b", column_id=1)
    made = mapped(tmp_path / "t", "NAME", a, columns={"b": [1]}, ids={"b": 1})
    assert made.rows("a = 1") == [{"a": 1}]


def test_swapped_column_names(tmp_path):
    a = field("a", "long", physical="b", column_id=1)
    b = field("b", "string", physical="a", column_id=2)
    for mode in ("name", "id"):
        made = mapped(
            tmp_path / mode,
            mode,
            a,
            b,
            columns={"b": [1, 2], "a": ["x", "y"]},
            ids={"b": 1, "a": 2},
        )
        assert made.rows("a = 2") == [{"a": 2, "b": "y"}]
        assert made.rows("b = 'x'") == [{"a": 1, "b": "x"}]


# --- what a caller may get wrong


@pytest.fixture
def table(tmp_path):
    made = Rows(tmp_path / "t", [field("id", "long"), field("d", "long")])
    return made.file("f.parquet", pa.table({"id": [1, 2], "d": [3, 4]})).open()


@pytest.mark.parametrize("limit", ["3", 2.5, True])
def test_a_limit_is_a_whole_number(table, limit):
    with pytest.raises(errors.ConfigError, match="limit: must be an integer"):
        table.scan(limit=limit)


@pytest.mark.parametrize("version", ["0", 0.0, False])
def test_a_version_is_a_whole_number(table, version):
    with pytest.raises(errors.ConfigError, match="version: must be an integer"):
        table.snapshot(version)


def test_numpy_integers_are_accepted(table):
    scan = table.snapshot(np.int64(0)).scan(limit=np.int32(1))
    assert scan.to_arrow().num_rows == 1


def test_a_string_is_not_a_list_of_columns(table):
    with pytest.raises(errors.ConfigError, match=r"columns: must be a list.*\['id'\]"):
        table.scan(columns="id")


def test_a_column_is_selected_once(table):
    with pytest.raises(errors.ConfigError, match="columns: names 'id' more than once"):
        table.scan(columns=["id", "d", "id"])


def test_a_part_of_what_has_none(table):
    with pytest.raises(
        errors.ColumnNotFoundError, match=r"no column 'id\.x'\. The schema has no columns"
    ):
        table.scan("id.x = 1")


def test_options_are_whole_numbers():
    with pytest.raises(errors.ConfigError, match="batch_rows: must be an integer"):
        ReadOptions(batch_rows=1.5)
