"""The data source without Spark: options, plans and input partitions, in one process."""

from __future__ import annotations

import pickle
from inspect import signature

import numpy as np
import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.sql import types as t
from pyspark.sql.pandas.types import to_arrow_type

from lazydelta import Table
from lazydelta.errors import ConfigError
from lazydelta.spark import arrow_conversion
from lazydelta.spark.conf import ReplaySettings
from lazydelta.spark.planner import split_by_size
from lazydelta.spark.serialized_snapshot import SerializedSnapshot
from lazydelta.spark.source import LazyDeltaSource, source_named
from lazydelta.spark.source_options import LATEST, SourceOptions
from lazydelta.spark.tasks import FileRange, LogPartition, SnapshotRead
from tests.unit.changes.support import FeedTable

COLUMNS = {
    "i": t.IntegerType(),
    "f": t.DoubleType(),
    "s": t.StringType(),
    "d": t.DateType(),
    "ts": t.TimestampType(),
    "nt": t.TimestampNTZType(),
    "n": t.DecimalType(10, 2),
    "b": t.BooleanType(),
}
UTC_TIMES = {"timezone": "UTC"} if "timezone" in signature(to_arrow_type).parameters else {}


def build(directory, files=12, checkpoint_at=6, tail_removes=True):
    """Build a table of small files: a checkpoint, a tail, a removed file and a vector."""
    table = FeedTable(directory, schema={"id": "long", "day": "date"}, partition_by=["day"])
    for number in range(files):
        days = {"day": f"2026-01-{number % 3 + 1:02d}"}
        ids = pa.array(range(number * 10, number * 10 + 10), pa.int64())
        name = f"f{number:03d}.parquet"
        adds = [table.add(name, pa.table({"id": ids}), values=days, modificationTime=number // 2)]
        if number == checkpoint_at + 1 and tail_removes:
            adds.append(table.remove("f000.parquet", values={"day": "2026-01-01"}))
            again = {"day": "2026-01-02"}
            adds.append(table.remove("f001.parquet", values=again))
            adds.append(table.add("f001.parquet", deleted=[0, 5], values=again, modificationTime=0))
        table.commit(*adds)
        if number == checkpoint_at:
            table.log.checkpoint()
    return table


def serialized(directory, version=None):
    return SerializedSnapshot.of(Table.open(directory).snapshot(version), None)


def listing(most):
    """Return settings with which a plan lists this many files."""
    return ReplaySettings(file_threshold=most)


def rows_of(read, parts):
    """Read parts as executors do: each with its own copy, through pickle."""
    found = []
    for part in parts:
        copy, mine = pickle.loads(cloudpickle.dumps((read, part)))
        for batch in copy.read(mine):
            found += [tuple(row.values()) for row in batch.to_pylist()]
    return sorted(found)


def expected(directory, **selection):
    rows = Table.open(directory).scan(**selection).to_arrow().to_pylist()
    return sorted(tuple(row.values()) for row in rows)


# --- plans


@pytest.mark.parametrize(
    "selection",
    [
        pytest.param({}, id="all"),
        pytest.param({"where": "day = '2026-01-02' AND id > 30"}, id="a-filter"),
        pytest.param({"columns": ("id",)}, id="a-column"),
        pytest.param({"where": "id < 0"}, id="nothing"),
    ],
)
@pytest.mark.parametrize("max_files", [10_000, 3], ids=["listed-here", "found-by-tasks"])
def test_parts_together_give_the_rows_of_the_scan(tmp_path, selection, max_files):
    build(tmp_path)
    where = (
        None
        if "where" not in selection
        else Table.open(tmp_path).scan(selection["where"]).predicate
    )
    read = SnapshotRead(
        snapshot=serialized(tmp_path),
        columns=selection.get("columns"),
        where=where,
        settings=listing(max_files),
    )
    assert rows_of(read, read.plan()) == expected(tmp_path, **selection)


def test_a_long_list_of_files_is_not_made_in_one_place(tmp_path):
    build(tmp_path)
    read = SnapshotRead(snapshot=serialized(tmp_path), settings=listing(3), tasks=4)
    parts = read.plan()
    assert {type(part) for part in parts} == {LogPartition}
    assert len(parts) == 4, "the tail and the checkpoint, two slices each"
    each = [set(rows_of(read, [part])) for part in parts]
    assert all(each)
    assert sum(map(len, each)) == len(set().union(*each)), "no file is read twice"


@pytest.mark.parametrize("kind", ["classic", "v2-json", "v2-parquet"])
def test_tasks_find_the_files_of_every_kind_of_checkpoint(tmp_path, kind):
    table = FeedTable(tmp_path)
    for number in range(8):
        table.commit(table.add(f"f{number}", pa.table({"id": pa.array([number], pa.int64())})))
    parts = {} if kind == "classic" else {"parts": 3}
    table.log.checkpoint(kind, **parts)
    table.commit(table.remove("f3"))
    read = SnapshotRead(snapshot=serialized(tmp_path), settings=listing(2))
    assert rows_of(read, read.plan()) == [(n,) for n in (0, 1, 2, 4, 5, 6, 7)]


def test_a_plan_holds_no_secret(tmp_path, monkeypatch):
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush-hush")
    build(tmp_path)
    read = SnapshotRead(snapshot=serialized(tmp_path))
    assert b"hush-hush" not in pickle.dumps((read, read.plan()))


def test_files_are_shared_out_by_size():
    sizes = np.array([90, 1, 1, 80]) << 20
    assert split_by_size(sizes, 2) == [range(1), range(1, 4)]
    assert split_by_size(np.array([10] * 3), 50) == [range(3)], "small files go together"
    many = split_by_size(np.full(1000, 1 << 20), 50)
    assert len(many) == 50
    assert [n for run in many for n in run] == list(range(1000))
    huge = split_by_size(np.full(100, 1 << 30), 4)
    assert len(huge) == 100, "no task gets more than a sensible share"


@pytest.mark.long
def test_file_ranges_split_a_version_at_any_file(tmp_path):
    build(tmp_path)
    whole = SnapshotRead(snapshot=serialized(tmp_path))
    with whole.scan.add_batches() as batches:
        keys = sorted(
            (time, path)
            for batch in batches
            for time, path in zip(
                batch.column("modificationTime").to_pylist(),
                batch.column("path").to_pylist(),
                strict=True,
            )
        )
    for at in keys:
        for most in (10_000, 2):
            parts = [
                SnapshotRead(snapshot=serialized(tmp_path), files=files, settings=listing(most))
                for files in (FileRange(last=at), FileRange(after=at))
            ]
            found = [rows_of(read, read.plan()) for read in parts]
            assert sorted(found[0] + found[1]) == expected(tmp_path)
            assert found[0]


# --- options


def test_options_are_read_without_regard_to_case():
    found = SourceOptions.parse(
        {
            "path": "/t",
            "VERSIONASOF": "3",
            "columns": "a, `b,c` ,d e",
            "maxBytesPerTrigger": "2g",
            "numPartitions": "7",
        }
    )
    assert found.version_as_of == 3
    assert found.columns == ("a", "b,c", "d e")
    assert found.max_bytes_per_trigger == 2 << 30
    assert found.num_partitions == 7
    assert (
        SourceOptions.parse({"path": "t", "startingVersion": "Latest"}).starting_version == LATEST
    )


def test_a_catalog_table_may_pin_its_path():
    given = {"provider": "lazydelta", "path": "file:/t@v3", "option.path": "/t@v3"}
    found = SourceOptions.parse(given)
    assert (found.path, found.version_as_of) == ("/t", 3)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"path": "/t", "account_key": "x"}, "account_key: lazydelta has no such option"),
        ({"path": "/t", "versionAsOf": "-1"}, "versionAsOf: must be an integer >= 0"),
        ({"path": "/t", "versionAsOf": "1", "timestampAsOf": "2026"}, "excludes versionAsOf"),
        ({"path": "/t@v1", "timestampAsOf": "2026"}, "excludes versionAsOf"),
        ({"path": "/t", "readChangeFeed": "yes"}, "must be true or false"),
        ({"path": "/t", "readChangeFeed": "true", "versionAsOf": "1"}, "takes startingVersion"),
        ({"path": "/t", "columns": "a,,b"}, "names separated by commas"),
        ({"path": "/t", "maxBytesPerTrigger": "many"}, "must be a size"),
        ({"path": "/t", "maxFilesPerTrigger": "0"}, "integer >= 1"),
        ({"path": "https://h/t?sig=abc"}, "plans would show the secret"),
        ({}, "path: is missing"),
    ],
)
def test_options_that_make_no_sense_are_refused(given, message):
    with pytest.raises(ConfigError, match=message) as caught:
        SourceOptions.parse(given)
    assert "abc" not in str(caught.value)


@pytest.mark.spark4
def test_options_of_the_other_kind_of_read_are_refused(tmp_path):
    build(tmp_path)
    for options, method in (
        ({"maxFilesPerTrigger": "1"}, LazyDeltaSource.reader),
        ({"startingVersion": "1"}, LazyDeltaSource.reader),
        ({"versionAsOf": "1"}, lambda *args: LazyDeltaSource.streamReader(*args).initialOffset()),
    ):
        source = LazyDeltaSource({"path": str(tmp_path)} | options)
        with pytest.raises(ConfigError, match=next(iter(options))):
            method(source, source.schema())


@pytest.mark.spark4
def test_the_version_is_fixed_when_the_schema_is_requested(tmp_path):
    table = build(tmp_path, files=3)
    source = LazyDeltaSource({"path": str(tmp_path)})
    schema = source.schema()
    table.commit(table.remove("f002.parquet"))
    reader = pickle.loads(cloudpickle.dumps(source)).reader(schema)
    assert len(rows_of(reader, reader.partitions())) == 30


@pytest.mark.spark4
def test_a_session_may_name_the_file_with_storage_options(tmp_path):
    build(tmp_path / "table", files=1)
    known = source_named("lazydelta", str(tmp_path / "options.json"))
    travelled = pickle.loads(cloudpickle.dumps(known))
    source = travelled({"path": str(tmp_path / "table")})
    with pytest.raises(ConfigError, match=r"options\.json"):
        source.schema()
    (tmp_path / "options.json").write_text("{}")
    assert source.schema().names == ["id", "day"]
    assert source.source._pinned.location.options_file == str(tmp_path / "options.json")
    own = travelled({"path": str(tmp_path / "table"), "storageOptionsFile": "elsewhere"})
    with pytest.raises(ConfigError, match="elsewhere"):
        own.schema()


@pytest.mark.spark4
def test_a_schema_of_the_callers_is_refused(tmp_path):
    build(tmp_path, files=1)
    source = LazyDeltaSource({"path": str(tmp_path)})
    with pytest.raises(ConfigError, match="schema: the table's is struct<id:bigint,day:date>"):
        source.reader(t.StructType([t.StructField("id", t.StringType())]))


# --- rows as Spark checks them


@pytest.mark.spark4
def test_arrow_types_are_those_that_spark_expects():
    struct = t.StructType(
        [t.StructField("x", t.IntegerType()), t.StructField("v", t.VariantType())]
    )
    kinds = [
        *COLUMNS.values(),
        *(t.ByteType(), t.ShortType(), t.LongType(), t.FloatType(), t.BinaryType(), t.NullType()),
        *(struct, t.ArrayType(struct), t.MapType(t.StringType(), struct, valueContainsNull=False)),
    ]
    for kind in kinds:
        assert arrow_conversion._arrow_type(kind) == to_arrow_type(kind, **UTC_TIMES), kind


@pytest.mark.spark4
def test_parts_of_a_struct_are_brought_into_sparks_order():
    """Ours keeps a variant's metadata first, Spark's its value; nulls and slices survive."""
    ours = pa.struct([("metadata", pa.binary()), ("value", pa.binary())])
    column = pa.array(
        [None, {"metadata": b"m", "value": b"v"}, None, {"metadata": b"n", "value": b"w"}], ours
    )
    nested = pa.array([[{"metadata": b"m", "value": b"v"}], None, [], [None]], pa.list_(ours))
    keyed = pa.array(
        [[("k", {"metadata": b"m", "value": b"v"})], None, [], []], pa.map_("string", ours)
    )
    batch = pa.RecordBatch.from_arrays([column, nested, keyed], ["a", "b", "c"])
    schema = t.StructType(
        [
            t.StructField("a", t.VariantType()),
            t.StructField("b", t.ArrayType(t.VariantType())),
            t.StructField("c", t.MapType(t.StringType(), t.VariantType())),
        ]
    )
    for part in (batch, batch.slice(1, 2), batch.slice(3)):
        (found,) = arrow_conversion.conform_batches([part], schema)
        found.validate(full=True)
        assert found.schema.field("a").type.field(0).name == "value"
        assert found.to_pylist() == [
            {name: _reordered(value) for name, value in row.items()} for row in part.to_pylist()
        ]


def _reordered(value):
    if isinstance(value, dict):
        return {"value": value["value"], "metadata": value["metadata"]}
    if isinstance(value, list):
        return [_reordered(one) for one in value]
    return tuple(map(_reordered, value)) if isinstance(value, tuple) else value
