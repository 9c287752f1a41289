"""Every Delta type round-trips through our reader and other engines."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import deltalake
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from lazydelta.errors import ConfigError, SchemaError

MOMENT = datetime(2026, 1, 31, 23, 59, 59, 999_999)  # noqa: DTZ001 - zones are added below
STRUCT = pa.struct({"a": pa.int64(), "b": pa.struct({"c": pa.string()})})
COLUMNS = {
    "boolean": pa.array([True, None, False]),
    "byte": pa.array([-128, None, 127], pa.int8()),
    "short": pa.array([-32768, None, 32767], pa.int16()),
    "integer": pa.array([-(2**31), None, 2**31 - 1], pa.int32()),
    "long": pa.array([-(2**63), None, 2**63 - 1], pa.int64()),
    "float": pa.array([1.5, None, float("-inf")], pa.float32()),
    "double": pa.array([-0.0, None, float("nan")], pa.float64()),
    "string": pa.array(["", None, "zürich ☃ \U0001f600 \x00"], pa.string()),
    "binary": pa.array([b"", None, b"\x00\xff"], pa.binary()),
    "date": pa.array([date(1, 1, 1), None, date(9999, 12, 31)], pa.date32()),
    "timestamp": pa.array([MOMENT.replace(tzinfo=UTC), None, datetime(1900, 1, 1, tzinfo=UTC)], pa.timestamp("us", "UTC")),
    "timestamp_ntz": pa.array([MOMENT, None, MOMENT], pa.timestamp("us")),
    "decimal_9": pa.array([Decimal("-1.23"), None, Decimal("9999999.99")], pa.decimal128(9, 2)),
    "decimal_18": pa.array([Decimal("-1.23"), None, Decimal("0.01")], pa.decimal128(18, 2)),
    "decimal_38": pa.array([Decimal(-1), None, Decimal("9" * 38)], pa.decimal128(38, 0)),
    "array": pa.array([[1, None], None, []], pa.list_(pa.int64())),
    "map": pa.array([[("k", 1.5), ("l", None)], None, []], pa.map_(pa.string(), pa.float64())),
    "struct": pa.array([{"a": 1, "b": {"c": "x"}}, None, {"a": None, "b": None}], STRUCT),
    "deep": pa.array([[{"a": 1, "b": {"c": "x"}}, None], None, []], pa.list_(STRUCT)),
    "map_of_lists": pa.array([[("k", [{"a": 1, "b": None}])], None, []], pa.map_(pa.string(), pa.list_(STRUCT))),
}  # fmt: skip


def values(table: pa.Table, name: str) -> list:
    return [repr(value) for value in table.column(name).to_pylist()]  # repr: NaN equals itself


@pytest.mark.parametrize("mode", ["none", "name", "id"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_type_round_trips(tmp_path, name, mode):
    data = pa.table({"n": [1, 2, 3], name: COLUMNS[name]})
    properties = {} if mode == "none" else {"delta.columnMapping.mode": mode}
    ld.write(tmp_path, data, properties=properties)
    ours = ld.Table.open(tmp_path).to_arrow().sort_by("n")
    assert ours.schema.field(name).type == data.schema.field(name).type
    assert values(ours, name) == values(data, name)
    if mode == "none":
        theirs = deltalake.DeltaTable(tmp_path).to_pyarrow_table().sort_by("n")
        assert values(theirs, name) == values(data, name)


def test_all_types_at_once_are_read_by_polars(tmp_path):
    names = [name for name in COLUMNS if not name.startswith("map")]
    ld.write(tmp_path, pa.table({name: COLUMNS[name] for name in names}))
    found = pl.read_delta(str(tmp_path))
    assert found.columns == names
    assert found["decimal_38"].to_list() == COLUMNS["decimal_38"].to_pylist()
    assert found["deep"].to_list() == COLUMNS["deep"].to_pylist()
    assert found["timestamp_ntz"].to_list() == COLUMNS["timestamp_ntz"].to_pylist()


def test_files_are_laid_out_as_spark_does(tmp_path):
    names = ("timestamp", "timestamp_ntz", "decimal_9", "decimal_18", "byte")
    ld.write(tmp_path, pa.table({name: COLUMNS[name] for name in names}))
    (path,) = tmp_path.glob("*.parquet")
    assert path.name.startswith("part-00000-")
    assert path.name.endswith("-c000.snappy.parquet")
    footer = pq.read_metadata(path)
    assert footer.metadata is None  # nothing of Arrow
    kinds = {
        c.path: (c.physical_type, str(c.logical_type)) for c in map(footer.schema.column, range(5))
    }
    assert kinds["timestamp"][0] == kinds["timestamp_ntz"][0] == "INT64"
    assert "isAdjustedToUTC=true, timeUnit=microseconds" in kinds["timestamp"][1]
    assert "isAdjustedToUTC=false, timeUnit=microseconds" in kinds["timestamp_ntz"][1]
    assert [kinds[name][0] for name in names[2:]] == ["INT32", "INT64", "INT32"]


@pytest.mark.parametrize("codec", ["snappy", "zstd", "gzip", "lz4", "brotli", "none"])
def test_codecs(tmp_path, codec):
    ld.write(tmp_path, {"x": [1, 2]}, options=ld.WriteOptions(codec=codec))
    (path,) = tmp_path.glob("*.parquet")
    assert path.name.endswith("-c000.parquet" if codec == "none" else f"-c000.{codec}.parquet")
    assert ld.Table.open(tmp_path).to_arrow().to_pydict() == {"x": [1, 2]}
    assert deltalake.DeltaTable(tmp_path).to_pyarrow_table().to_pydict() == {"x": [1, 2]}


def test_the_tables_codec_is_used(tmp_path):
    ld.write(tmp_path, {"x": [1]}, properties={"delta.parquet.compression.codec": "zstd"})
    ld.write(tmp_path, {"x": [2]}, "append")
    assert len(list(tmp_path.glob("*.zstd.parquet"))) == 2


def test_the_tables_version_of_pages_is_used(tmp_path):
    wanted = {"delta.parquet.format.version": "2.12.0"}
    ld.write(tmp_path, {"x": [1, 2]}, properties=wanted)
    (path,) = tmp_path.glob("*.parquet")
    start = pq.read_metadata(path).row_group(0).column(0).data_page_offset
    assert path.read_bytes()[start : start + 2] == b"\x15\x06"  # the header's type: DATA_PAGE_V2
    assert ld.Table.open(tmp_path).to_arrow().to_pydict() == {"x": [1, 2]}
    with pytest.raises(ConfigError, match=r'"1\.0\.0", or'):
        ld.Table.open(tmp_path).alter.set_properties({"delta.parquet.format.version": "3"})


def test_column_mapping_writes_physical_names_and_ids_at_every_depth(tmp_path):
    data = pa.table({"a b": COLUMNS["deep"], "p;q": ["x", "y", None]})
    ld.write(tmp_path, data, partition_by="p;q", properties={"delta.columnMapping.mode": "id"})
    table = ld.Table.open(tmp_path)
    assert sorted(map(repr, table.to_arrow().to_pylist())) == sorted(map(repr, data.to_pylist()))
    for file in table.scan().files():
        prefix, _, name = file.path.partition("/")
        assert len(prefix) == 2
        assert "=" not in file.path
        schema = pq.read_schema(tmp_path / file.path)
        (column,) = schema
        assert column.name.startswith("col-")
        inner = column.type.value_type
        ids = [f.metadata[b"PARQUET:field_id"] for f in (column, *inner, *inner.field(1).type)]
        assert len(set(ids)) == 4
        assert name.startswith("part-")


def test_void_columns_are_omitted_from_files(tmp_path):
    ld.write(tmp_path, pa.table({"x": [1], "nothing": pa.nulls(1)}))
    (path,) = tmp_path.glob("*.parquet")
    assert pq.read_schema(path).names == ["x"]
    assert ld.Table.open(tmp_path).to_arrow().to_pydict() == {"x": [1], "nothing": [None]}


def test_void_fields_of_structs_are_omitted(tmp_path):
    kind = pa.struct({"a": pa.int64(), "n": pa.null()})
    ld.write(tmp_path, pa.table({"s": pa.array([{"a": 1}, None], kind)}))
    (path,) = tmp_path.glob("*.parquet")
    assert pq.read_schema(path).field("s").type.names == ["a"]
    found = ld.Table.open(tmp_path).to_arrow().column("s").to_pylist()
    assert found == [{"a": 1, "n": None}, None]


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.nulls(1), id="nothing-but-void"),
        pytest.param(pa.array([[None]], pa.list_(pa.null())), id="a-list-of-void"),
        pytest.param(pa.array([{"n": None}], pa.struct({"n": pa.null()})), id="a-struct-of-void"),
    ],
)
def test_void_only_rows_are_refused(tmp_path, column):
    with pytest.raises(SchemaError):
        ld.write(tmp_path, pa.table({"x": column}))
    assert not list(tmp_path.rglob("*.parquet"))
    assert not (tmp_path / "_delta_log").exists()


def test_rows_are_split_into_files_of_the_target_size(tmp_path):
    data = pa.table({"x": list(range(10_000))})
    options = ld.WriteOptions(target_file_bytes=1, row_group_rows=1000)
    result = ld.write(
        tmp_path, (data.slice(at, 500) for at in range(0, 10_000, 500)), options=options
    )
    assert result.files_added == 10
    table = ld.Table.open(tmp_path)
    assert sorted(table.to_arrow().column("x").to_pylist()) == list(range(10_000))
    bounds = sorted(
        (f.stats["minValues"]["x"], f.stats["maxValues"]["x"]) for f in table.scan().files()
    )
    assert bounds == [(at, at + 999) for at in range(0, 10_000, 1000)]  # order is kept


def test_the_tables_target_size_is_used(tmp_path):
    data = {"x": list(range(5000))}
    ld.write(
        tmp_path,
        data,
        properties={"delta.targetFileSize": "1kb"},
        options=ld.WriteOptions(row_group_rows=1000),
    )
    assert len(list(tmp_path.glob("*.parquet"))) == 5


@pytest.mark.parametrize("partition_by", [None, ["p"]])
@pytest.mark.parametrize("codec", ["snappy", "none"])
def test_files_have_about_the_target_size(tmp_path, partition_by, codec):
    random = np.random.default_rng(7)
    target, count = 256 << 10, 200_000
    columns = {
        "p": np.arange(count) % 2,
        "id": np.arange(count),
        "value": random.random(count),
        "name": [f"name {number % 1000}" for number in range(count)],
    }
    options = ld.WriteOptions(target_file_bytes=target, codec=codec)
    batches = pa.table(columns).to_batches(20_000)
    ld.write(tmp_path, batches, options=options, partition_by=partition_by)
    table = ld.Table.open(tmp_path)
    sizes = {file.path: file.size for file in table.scan().files()}
    assert len(sizes) > 5
    assert max(sizes.values()) <= 1.25 * target
    below = [size for size in sizes.values() if size < 0.75 * target]
    assert len(below) <= (1 if partition_by is None else 2)  # the last file of each partition
    assert table.scan().count() == count
