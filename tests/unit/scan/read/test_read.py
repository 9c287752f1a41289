"""Rows of tables: deletion vectors, partitions, column mapping, predicates and limits."""

from __future__ import annotations

import threading
import time
from datetime import date

import numpy as np
import pyarrow as pa
import pytest

from lazydelta import Config, Table, errors
from lazydelta.config import ReadOptions
from lazydelta.store import MemoryStore
from tests.unit.scan.read.tables import Rows, bitmap, field, inline

FIELDS = [field("id", "long"), field("name", "string")]


def numbers(start, stop):
    return pa.table(
        {"id": np.arange(start, stop), "name": [f"n{i % 7}" for i in range(start, stop)]}
    )


def ids(rows):
    return sorted(row["id"] for row in rows)


@pytest.fixture
def table(tmp_path):
    """Three files of three row groups each: 0 to 299, 300 to 599, 600 to 899."""
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    for start in (0, 300, 600):
        made.file(f"{start}.parquet", numbers(start, start + 300), row_group_size=100)
    return made


def test_all_rows(table):
    assert ids(table.rows()) == list(range(900))


@pytest.mark.parametrize(
    "where",
    ["id = 450", "id < 5 or id > 890", "id between 95 and 105", "name = 'n3' and id > 700",
     "id > 10000", "id is null", "name like 'n%' and id in (1, 899)", "not (id >= 3)"],
)  # fmt: skip
@pytest.mark.parametrize("deleted", [[], [0, 50, 99, 150, 299], range(100, 200), range(300)])
@pytest.mark.parametrize("pushdown", [True, False])
def test_deletion_vectors_and_predicates(tmp_path, where, deleted, pushdown):
    """Positions are those in the file, also if row groups are skipped."""
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    expected = []
    for start in (0, 300):
        made.file(
            f"{start}.parquet",
            numbers(start, start + 300),
            row_group_size=100,
            vector=inline(list(deleted)) if deleted else None,
        )
        expected += [start + at for at in range(300) if at not in deleted]
    test = {
        "id = 450": lambda i: i == 450,
        "id < 5 or id > 890": lambda i: i < 5 or i > 890,
        "id between 95 and 105": lambda i: 95 <= i <= 105,
        "name = 'n3' and id > 700": lambda i: i % 7 == 3 and i > 700,
        "id > 10000": lambda _: False,
        "id is null": lambda _: False,
        "name like 'n%' and id in (1, 899)": lambda i: i in (1, 899),
        "not (id >= 3)": lambda i: i < 3,
    }[where]
    scan = made.open().scan(where, ["id"])
    found = scan.to_arrow(ReadOptions(enable_parquet_pushdown=pushdown, batch_rows=37)).to_pylist()
    assert ids(found) == [i for i in expected if test(i)]
    assert all(
        set(row) == {"id"} for row in found
    )  # a column only in the predicate is not returned


def test_deletion_vectors_of_one_file_by_offset(tmp_path):
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    first, second = made.vectors([0], [0, 1, 299], prefix="ab")
    made.file("a.parquet", numbers(0, 300), vector=first)
    made.file("b.parquet", numbers(300, 600), vector=second)
    assert ids(made.rows()) == [*range(1, 300), *range(302, 599)]


def test_a_deletion_vector_beyond_the_last_row_is_refused(tmp_path):
    for rows in ([300], [2**40]):
        made = Rows(tmp_path / f"t{rows}", FIELDS, features=("deletionVectors",))
        made.file("a.parquet", numbers(0, 300), vector=inline(rows))
        with pytest.raises(errors.DeletionVectorError, match="has 300 rows"):
            made.rows()


def test_a_missing_deletion_vector_is_an_error(tmp_path):
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    (vector,) = made.vectors([5])
    made.file("a.parquet", numbers(0, 300), vector=vector)
    for file in made.path.glob("*.bin"):
        file.unlink()
    with pytest.raises(errors.DeletionVectorError, match="missing"):
        made.rows()


def test_a_deletion_vector_applies_whatever_the_properties(tmp_path):
    made = Rows(
        tmp_path / "t", FIELDS, features=("deletionVectors",),
        configuration={"delta.enableDeletionVectors": "false"},
    )  # fmt: skip
    made.file("a.parquet", numbers(0, 10), vector=inline([1, 2]))
    assert ids(made.rows()) == [0, *range(3, 10)]


def test_a_missing_file_names_the_likely_cause(table):
    opened = table.open()
    (table.path / "300.parquet").unlink()
    with pytest.raises(errors.DataFileNotFoundError, match="vacuum") as caught:
        opened.scan().to_arrow()
    assert (caught.value.path, caught.value.version) == ("300.parquet", 0)


def test_a_damaged_file_is_named(table):
    opened = table.open()
    (table.path / "300.parquet").write_bytes(b"PAR1 no more PAR1")
    with pytest.raises(errors.DataFileError, match=r"300\.parquet"):
        opened.scan().to_arrow()


def test_a_file_with_incompatible_types_is_named(tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    made.file("a.parquet", pa.table({"id": ["not a number"], "name": ["x"]}))
    with pytest.raises(errors.DataFileError, match=r"'id'.*string.*long"):
        made.rows()


@pytest.mark.parametrize("path", ["../secret.parquet", "%2e%2e/secret.parquet", "/etc/passwd"])
def test_a_path_outside_the_table_is_not_opened(tmp_path, path):
    made = Rows(tmp_path / "t", FIELDS)
    made.file("a.parquet", numbers(0, 3), action={"path": path})
    (tmp_path / "secret.parquet").write_bytes((made.path / "a.parquet").read_bytes())
    with pytest.raises(errors.PathNotAllowedError):
        made.rows()


def test_a_path_in_an_allowed_root_is_read(tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    made = Rows(tmp_path / "t", FIELDS)
    made.file("a.parquet", numbers(0, 3), action={"path": f"file://{other}/a.parquet"})
    (made.path / "a.parquet").rename(other / "a.parquet")
    assert ids(made.rows(allowed_roots=(str(other),))) == [0, 1, 2]


# --- partitions -----------------------------------------------------------------------------------


def partitioned(tmp_path):
    kinds = [field("id", "long"), field("day", "date"), field("k", "string")]
    made = Rows(tmp_path / "t", kinds, partition_columns=["day", "k"])
    values = [("2020-01-01", "a b"), ("2020-01-02", "x=%2F"), (None, ""), ("2020-01-01", None)]
    for at, (day, k) in enumerate(values):
        # Partition values come from the log, not from the directory.
        name = f"day=1999-01-01/k=z/{at}.parquet"
        data = pa.table({"id": [at], "day": ["in the file"], "k": [7]})
        made.file(name, data, partition={"day": day, "k": k})
    return made


def test_partition_values_come_from_the_log(tmp_path):
    found = {row["id"]: (row["day"], row["k"]) for row in partitioned(tmp_path).rows()}
    assert found == {
        0: (date(2020, 1, 1), "a b"),
        1: (date(2020, 1, 2), "x=%2F"),
        2: (None, None),
        3: (date(2020, 1, 1), None),
    }


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("day = date'2020-01-01'", [0, 3]),
        ("day != date'2020-01-01'", [1]),  # null is neither
        ("k is null", [2, 3]),
        ("not k = 'a b'", [1]),
        ("year(day) = 2020 and k is not null", [0, 1]),
        ("k = 'a b' or id = 3", [0, 3]),
        ("day = date'2020-01-02' or id >= 2", [1, 2, 3]),
    ],
)
@pytest.mark.parametrize("columns", [None, ["id"], ["k", "id"]])
def test_predicates_on_partitions(tmp_path, where, expected, columns):
    found = partitioned(tmp_path).rows(where, columns)
    assert ids(found) == expected
    if columns:
        assert [list(row) for row in found] == [columns] * len(expected)


def test_only_partition_columns(tmp_path):
    found = partitioned(tmp_path).rows(columns=["k"])
    assert sorted(str(row["k"]) for row in found) == ["None", "None", "a b", "x=%2F"]


def test_no_columns_still_counts_rows(table):
    with table.open().scan(columns=[]).to_batches() as batches:
        assert sum(batch.num_rows for batch in batches) == 900


@pytest.mark.parametrize(("writer", "matches"), [(3, 1), (4, 0)])
def test_a_generation_expression_without_the_feature_is_ignored(tmp_path, writer, matches):
    generated = {"delta.generationExpression": "CAST(n AS STRING)"}
    fields = [field("n", "long"), {**field("p", "string"), "metadata": generated}]
    made = Rows(tmp_path / "t", fields, partition_columns=["p"])
    made.actions[0]["protocol"]["minWriterVersion"] = writer
    made.file("a.parquet", pa.table({"n": [7]}), partition={"p": "whatever"})
    assert len(made.rows("n = 7")) == matches


def test_an_invalid_partition_value_is_an_error(tmp_path):
    made = Rows(tmp_path / "t", [field("p", "integer")], partition_columns=["p"])
    made.file("a.parquet", pa.table({"x": [1]}), partition={"p": "seven"})
    with pytest.raises(errors.SchemaError, match="'p'"):
        made.rows()


def test_a_file_without_partition_values_has_nulls(tmp_path):
    fields = [field("x", "long"), field("p", "integer")]
    made = Rows(tmp_path / "t", fields, partition_columns=["p"])
    made.file("a.parquet", pa.table({"x": [1]}), action={"partitionValues": None})
    for where in (None, "p = 1", "p IS NULL"):
        with pytest.raises(errors.LogCorruptError, match="no partitionValues"):
            made.rows(where)
    assert made.rows(columns=["x"]) == [{"x": 1}]


# --- order, limit and stopping --------------------------------------------------------------------


def test_plan_order(table):
    options = ReadOptions(ordered=True, batch_rows=50)
    opened = table.open()
    files = [file.path for file in opened.scan().files()]
    found = opened.scan().to_arrow(options)["id"].to_pylist()
    expected = [i for f in files for i in range(int(f[:-8]), int(f[:-8]) + 300)]
    assert found == expected


@pytest.mark.parametrize("limit", [0, 1, 299, 300, 301, 5000])
def test_a_limit_counts_rows(table, limit):
    found = table.rows(limit=limit)
    assert len(found) == min(limit, 900)
    assert len(set(ids(found))) == len(found)


def test_a_limit_with_a_predicate_counts_matches(table):
    found = table.rows("name = 'n3'", limit=5)
    assert len(found) == 5
    assert {row["name"] for row in found} == {"n3"}


class Opening(MemoryStore):
    """Records opened data files."""

    def open_input(self, path, *, size=None):
        self.opened.append(path)
        return super().open_input(path, size=size)


def in_memory(made, root="/memory"):
    """Return a memory store with the files of a table."""
    made.open()
    files = {
        str(path.relative_to(made.path)): path.read_bytes()
        for path in made.path.rglob("*")
        if path.is_file()
    }
    store = Opening(files, root=root)
    store.opened = []
    return store


def test_a_limit_opens_no_more_files_than_it_needs(tmp_path):
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    for at in range(40):
        made.file(f"{at}.parquet", numbers(at, at + 3), vector=inline([0]))
    store = in_memory(made)
    scan = Table(store, Config()).scan(limit=5)
    with scan.to_batches(ReadOptions(files_at_once=1)) as batches:
        found = next(batches).num_rows
        time.sleep(0.2)  # without further requests no more files are opened
        assert len(store.opened) <= 3
        assert found + sum(batch.num_rows for batch in batches) == 5
    assert len(store.opened) == 3  # two rows of each remain


def test_closing_stops_the_read(table):
    batches = table.open().scan().to_batches(ReadOptions(batch_rows=10, memory_limit=1))
    next(batches)
    batches.close()
    assert not [t for t in threading.enumerate() if t.name.startswith("lazydelta-read")]


def test_reads_are_lazy(tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    made.file("a.parquet", numbers(0, 3))
    scan = made.open().scan()
    (made.path / "a.parquet").unlink()
    stream = scan.to_batches()
    assert scan.output_schema().schema.names == ["id", "name"]
    with pytest.raises(errors.DataFileNotFoundError):
        next(stream)


# --- mapped, evolved and tracked ------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["name", "id"])
def test_column_mapping_with_partitions_predicates_and_deletion_vectors(tmp_path, mode):
    kinds = [
        field("id", "long", physical="col-1", column_id=1),
        field("part", "integer", physical="col-2", column_id=2),
        field("later", "string", physical="col-3", column_id=3),
    ]
    made = Rows(
        tmp_path / "t", kinds, partition_columns=["part"], features=("deletionVectors",),
        configuration={"delta.columnMapping.mode": mode},
    )  # fmt: skip
    schema = pa.schema([pa.field("col-1", pa.int64(), metadata={"PARQUET:field_id": "1"})])
    for at in range(3):
        data = pa.table([pa.array(range(10 * at, 10 * at + 10))], schema=schema)
        made.file(f"{at}.parquet", data, partition={"col-2": str(at)}, vector=inline([0]))
    assert made.rows("part = 1 and id > 17") == [
        {"id": 18, "part": 1, "later": None},
        {"id": 19, "part": 1, "later": None},
    ]
    assert made.rows("later is not null") == []
    assert len(made.rows("later is null")) == 27


def test_a_widened_column_is_filtered_in_its_new_type(tmp_path):
    made = Rows(tmp_path / "t", [field("x", "decimal(12,2)")])
    made.file("old.parquet", pa.table({"x": pa.array([1, 2, 3], pa.int32())}))
    made.file(
        "new.parquet",
        pa.table(
            {
                "x": pa.array([2, 5], pa.int64())
                .cast(pa.decimal128(20, 0))
                .cast(pa.decimal128(12, 2))
            }
        ),
    )
    found = made.rows("x >= 2")
    assert sorted(str(row["x"]) for row in found) == ["2.00", "2.00", "3.00", "5.00"]


def test_a_predicate_on_a_struct_field(tmp_path):
    kind = {"type": "struct", "fields": [field("a", "long"), field("b", "string")]}
    made = Rows(tmp_path / "t", [field("id", "long"), field("s", kind)])
    rows = [{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 4, "b": None}]
    made.file("a.parquet", pa.table({"id": [0, 1, 2, 3], "s": rows}))
    assert ids(made.rows("s.a > 0", ["id"])) == [0, 3]
    assert ids(made.rows("s.a is null", ["id"])) == [1, 2]
    assert made.rows("s.b = 'y'") == [{"id": 2, "s": {"a": None, "b": "y"}}]


def test_dictionary_encoded_strings_at_every_depth(tmp_path):
    inner = {"type": "struct", "fields": [field("t", "string"), field("new", "long")]}
    kinds = [
        field("t", "string"),
        field("b", "binary"),
        field("s", inner),
        field("l", {"type": "array", "elementType": "string", "containsNull": True}),
        field("a.b", "string"),
    ]
    strings = [None if i % 5 == 0 else f"text {i % 3}" for i in range(5000)]
    data = pa.table(
        {
            "t": strings,
            "b": pa.array([None if t is None else t.encode() for t in strings], pa.binary()),
            "s": [{"t": t} for t in strings],
            "l": [[t, t] for t in strings],
            "a.b": strings,
        }
    )
    made = Rows(tmp_path / "t", kinds, features=("deletionVectors",))
    made.file("a.parquet", data, row_group_size=1000, vector=inline([0, 2, 4999]))
    found = made.open().scan("t = 'text 1' or s.t is null").to_arrow()
    found.validate(full=True)
    left = [t for i, t in enumerate(strings) if i not in (0, 2, 4999)]
    expected = [t for t in left if t in ("text 1", None)]
    assert found["t"].to_pylist() == expected
    assert found["a.b"].to_pylist() == expected
    assert found["b"].to_pylist() == [None if t is None else t.encode() for t in expected]
    assert found["s"].to_pylist() == [{"t": t, "new": None} for t in expected]
    assert found["l"].to_pylist() == [[t, t] for t in expected]


TRACKING = {
    "delta.enableRowTracking": "true",
    "delta.rowTracking.materializedRowIdColumnName": "_row-id",
    "delta.rowTracking.materializedRowCommitVersionColumnName": "_row-version",
}


def test_row_ids_are_positions_or_materialized(tmp_path):
    made = Rows(
        tmp_path / "t", FIELDS, configuration=TRACKING,
        features=("rowTracking", "domainMetadata", "deletionVectors"),
    )  # fmt: skip
    made.file(
        "a.parquet", numbers(0, 4), vector=inline([1]), row_group_size=2,
        action={"baseRowId": 100, "defaultRowCommitVersion": 7},
    )  # fmt: skip
    moved = numbers(10, 13).append_column("_row-id", pa.array([5, None, 6]))
    moved = moved.append_column("_row-version", pa.array([None, 1, 2]))
    made.file("b.parquet", moved, action={"baseRowId": 200, "defaultRowCommitVersion": 9})
    options = ReadOptions(
        row_id_column="row", row_commit_version_column="at", file_column_name="file"
    )
    scan = made.open().scan("id != 3")
    assert scan.output_schema(options).schema.names == ["id", "name", "file", "row", "at"]
    found = {r["id"]: (r["row"], r["at"], r["file"]) for r in scan.to_arrow(options).to_pylist()}
    assert found == {
        0: (100, 7, "a.parquet"),
        2: (102, 7, "a.parquet"),
        10: (5, 9, "b.parquet"),
        11: (201, 1, "b.parquet"),
        12: (6, 2, "b.parquet"),
    }


def test_row_ids_without_row_tracking(table):
    with pytest.raises(errors.UnsupportedFeatureError, match="rowTracking"):
        table.open().scan().to_batches(ReadOptions(row_id_column="row"))


def test_a_metadata_column_may_not_hide_a_table_column(table):
    with pytest.raises(errors.ConfigError, match="'id'"):
        table.open().scan().to_batches(ReadOptions(file_column_name="id"))


@pytest.mark.parametrize("setting", ["batch_rows", "files_at_once"])
def test_invalid_options_are_refused(setting):
    with pytest.raises(errors.ConfigError, match=setting):
        ReadOptions(**{setting: 0})


def test_special_characters_in_a_path(tmp_path):
    made = Rows(tmp_path / "t", FIELDS)
    made.file("a b%c+é.parquet", numbers(0, 3), action={"path": "a%20b%25c+%C3%A9.parquet"})
    scan = made.open().scan()
    found = scan.to_arrow(ReadOptions(file_column_name="f"))
    assert set(found["f"].to_pylist()) == {"a b%c+é.parquet"}


def test_rows_from_a_remote_store(tmp_path):
    """Remote files: row groups are buffered."""
    made = Rows(tmp_path / "t", FIELDS, features=("deletionVectors",))
    (vector,) = made.vectors([0, 299])
    made.file("a.parquet", numbers(0, 300), row_group_size=100, vector=vector)
    store = in_memory(made, root="memory://t")
    found = Table(store, Config()).scan("id > 150 or id = 1").to_arrow()["id"].to_pylist()
    assert sorted(found) == [1, *range(151, 299)]


def test_the_bitmap_helper_writes_the_roaring_format():
    assert bitmap([1])[:4] == (1681511377).to_bytes(4, "little")
