"""Malicious data files, deletion vectors and partition values: a typed error in bounded memory.

Invalid bytes of deletion vectors are in `tests/unit/formats/test_deletion_vectors.py`.
"""

from __future__ import annotations

import io
import json
import random
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import Config, Table
from lazydelta.errors import (
    ConfigError,
    DataFileError,
    DeletionVectorError,
    DeltaError,
    SchemaError,
)
from lazydelta.scan.read.reading import ReadOptions
from lazydelta.store import MemoryStore
from tests.unit.scan.read.tables import Rows, entry, field, inline
from tests.unit.scan.read.tables import bitmap as payload_of

MEGABYTE = 1 << 20
SMALL = ReadOptions(max_inflated_bytes=4 * MEGABYTE)


def table_of(tmp_path, column, kind, **options):
    made = Rows(tmp_path / "t", [field("x", kind)])
    return made.file("a.parquet", pa.table({"x": column}), **options)


# --- bombs ----------------------------------------------------------------------------------------

ARRAY = {"type": "array", "elementType": "integer", "containsNull": True}
MAP = {"type": "map", "keyType": "integer", "valueType": "integer", "valueContainsNull": True}
STRUCT = {"type": "struct", "fields": [field("l", ARRAY)]}


def zeros(count):
    return pa.array(np.zeros(count, np.int32))


def one_list(count):
    return pa.ListArray.from_arrays(pa.array([0, count], pa.int32()), zeros(count))


def bombs():
    count = 2_000_000
    yield pytest.param(
        one_list(count), ARRAY, {"compression": "zstd"}, id="a-row-with-two-million-values"
    )
    yield pytest.param(
        one_list(count), ARRAY, {"compression": "none"}, id="a-long-list-without-compression"
    )
    yield pytest.param(
        pa.MapArray.from_arrays([0, count], zeros(count), zeros(count)), MAP,
        {"compression": "snappy"}, id="a-long-map",
    )  # fmt: skip
    yield pytest.param(
        pa.StructArray.from_arrays([one_list(count)], ["l"]), STRUCT,
        {"compression": "snappy"}, id="a-long-list-in-a-struct",
    )  # fmt: skip
    for codec in ("zstd", "gzip", "brotli", "lz4"):
        yield pytest.param(
            pa.array([b"\0" * (8 * MEGABYTE)]), "binary",
            {"compression": codec, "use_dictionary": False}, id=f"a-page-of-{codec}",
        )  # fmt: skip
    yield pytest.param(
        pa.array([b"\0" * (8 * MEGABYTE)]), "binary",
        {"compression": "zstd", "dictionary_pagesize_limit": 16 * MEGABYTE},
        id="a-dictionary-of-zstd",
    )  # fmt: skip


@pytest.mark.parametrize(("column", "kind", "options"), list(bombs()))
def test_a_decompression_bomb_is_refused(tmp_path, column, kind, options):
    made = table_of(tmp_path, column, kind, **options)
    assert (made.path / "a.parquet").stat().st_size < MEGABYTE // 16
    with pytest.raises(DataFileError, match="max_inflated_bytes=4194304") as caught:
        made.open().scan().to_arrow(SMALL)
    assert caught.value.path == "a.parquet"
    wide = ReadOptions(max_inflated_bytes=64 * MEGABYTE)
    found = made.open().scan().to_arrow(wide)["x"]
    assert found.combine_chunks().equals(column.cast(found.type))


def test_a_large_file_is_read(tmp_path):
    noise = np.random.default_rng(7).integers(-(2**31), 2**31, 2_000_000, np.int32)
    lists = pa.ListArray.from_arrays(pa.array([0, len(noise)], pa.int32()), pa.array(noise))
    made = table_of(tmp_path, lists, ARRAY, compression="zstd")
    assert made.open().scan().to_arrow(SMALL).num_rows == 1


@pytest.mark.parametrize("coded", [True, False], ids=["read-as-indices", "read-as-strings"])
def test_long_strings_are_returned_in_small_batches(tmp_path, coded):
    """A dictionary of one long string: 3 megabytes in the file, gigabytes when decoded."""
    long = "x" * (3 * MEGABYTE)
    rows = 2_000_000 if coded else 2_000  # dictionary indices are a few bytes per row
    codes = pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), pa.array([long]))
    made = table_of(
        tmp_path, codes, "string", compression="zstd", dictionary_pagesize_limit=16 * MEGABYTE,
        store_schema=False,
    )  # fmt: skip
    options = ReadOptions(max_inflated_bytes=32 * MEGABYTE, files_at_once=1, memory_limit=1)
    with made.open().scan().to_batches(options) as batches:
        for _, batch in zip(range(3), batches, strict=False):
            assert 0 < batch.nbytes <= 33 * MEGABYTE
            assert batch.column(0)[0].as_py() == long


def test_a_refused_file_allocates_no_memory(tmp_path):
    """In a subprocess, whose peak memory the operating system reports."""
    made = table_of(tmp_path, one_list(20_000_000), ARRAY, compression="zstd")
    made.open()
    code = f"""
import resource, pyarrow.compute
from lazydelta import Table
from lazydelta.errors import DataFileError
from lazydelta.config import ReadOptions
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    Table.open({str(made.path)!r}).scan().to_arrow(ReadOptions(max_inflated_bytes=2**26))
except DataFileError as error:
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, error)
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=120
    )
    kilobytes, _, message = done.stdout.partition(" ")
    assert "would decode to 80000000" in message
    assert int(kilobytes) < 64 * 1024


def test_an_invalid_limit_is_refused():
    with pytest.raises(ConfigError, match="max_inflated_bytes"):
        ReadOptions(max_inflated_bytes=0)


# --- damage ---------------------------------------------------------------------------------------


def file_bytes(codec="zstd"):
    rows = 300
    data = pa.table(
        {
            "id": np.arange(rows),
            "name": [f"n{i % 7}" for i in range(rows)],
            "l": [[i, None] if i % 3 else None for i in range(rows)],
        }
    )
    sink = io.BytesIO()
    pq.write_table(data, sink, row_group_size=100, compression=codec)
    return sink.getvalue()


FIELDS = [
    field("id", "long"),
    field("name", "string"),
    field("l", {"type": "array", "elementType": "long", "containsNull": True}),
]


def damaged(data, root="/memory"):
    """Return the rows of a table with one file of these bytes, or None if it is refused."""
    schema = json.dumps({"type": "struct", "fields": FIELDS})
    metadata = {"id": "t", "format": {"provider": "parquet"}, "schemaString": schema}
    add = {"path": "a.parquet", "size": len(data), "partitionValues": {}, "modificationTime": 0}
    actions = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {"metaData": metadata | {"partitionColumns": [], "configuration": {}}},
        {"add": add | {"dataChange": True}},
    ]
    log = "".join(json.dumps(action) + "\n" for action in actions)
    files = {"_delta_log/00000000000000000000.json": log.encode(), "a.parquet": data}
    store = MemoryStore(files, root=root)
    try:
        found = Table(store, Config()).scan("id >= 0").to_arrow()
    except DeltaError as error:
        assert "a.parquet" in str(error)
        return None
    found.validate()
    return found.num_rows


@pytest.mark.parametrize("root", ["/memory", "memory://t"], ids=["local", "remote"])
@pytest.mark.parametrize("codec", ["zstd", "snappy", "none"])
def test_random_damage_is_detected_or_harmless(root, codec):
    """Without checksums a flipped bit in a value is not detectable; other damage is.

    Footers are left intact: pyarrow 26 aborts the process in `RowGroupMetaData.column` when size
    statistics do not fit the schema (an uncaught C++ exception).
    """
    whole = file_bytes(codec)
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    assert damaged(whole, root) == 300
    chance = random.Random(11)
    outcomes = set()
    for _ in range(50):
        data = bytearray(whole)
        for _ in range(chance.randint(1, 3)):
            data[chance.randrange(footer)] = chance.randrange(256)
        rows = damaged(bytes(data), root)
        assert rows is None or rows <= 300
        outcomes.add(rows is None)
    assert outcomes == {True, False}


@pytest.mark.parametrize("root", ["/memory", "memory://t"], ids=["local", "remote"])
def test_a_truncated_file_is_refused(root):
    whole = file_bytes()
    for size in [0, 1, 4, 8, 11, 12, *range(20, len(whole), 97), len(whole) - 1]:
        assert damaged(whole[:size], root) is None, size
    assert damaged(b"PAR1" * 100, root) is None
    assert damaged(whole[:-8] + b"\xff\xff\xff\x7fPAR1", root) is None  # a footer of 2 gigabytes
    assert damaged(whole[:-8] + b"\0\0\0\0PAR1", root) is None


def test_many_row_groups_and_columns(tmp_path):
    names = [f"c{at}" for at in range(500)]
    made = Rows(tmp_path / "t", [field(name, "long") for name in names])
    data = pa.table({name: np.arange(40) for name in names})
    made.file("a.parquet", data, row_group_size=1)
    assert made.open().scan("c7 >= 38", ["c499"]).to_arrow()["c499"].to_pylist() == [38, 39]


# --- vectors that lie -----------------------------------------------------------------------------

PAYLOAD = payload_of([1, 2])
NAME = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
STORED = {
    "storageType": "u", "pathOrInlineDv": "^-aqEH.-t@S}K{vb[*k^", "offset": 1,
    "sizeInBytes": len(PAYLOAD), "cardinality": 2,
}  # fmt: skip
GOOD = b"\x01" + entry(PAYLOAD)


@pytest.mark.parametrize(
    ("vector", "data"),
    [
        pytest.param(STORED | {"sizeInBytes": 2**31 - 1}, GOOD, id="a-size-far-out"),
        pytest.param(STORED | {"sizeInBytes": len(PAYLOAD) - 4}, GOOD, id="a-size-too-small"),
        pytest.param(STORED | {"offset": 2**31 - 1}, GOOD, id="an-offset-far-out"),
        pytest.param(STORED | {"offset": -5}, GOOD, id="a-negative-offset"),
        pytest.param(STORED | {"offset": 0}, GOOD, id="an-offset-that-is-off"),
        pytest.param(STORED, GOOD[:-1] + b"\x00", id="a-checksum-that-is-wrong"),
        pytest.param(STORED, GOOD[:20], id="a-file-that-is-cut"),
        pytest.param(STORED, b"", id="an-empty-file"),
        pytest.param(STORED, None, id="no-file"),
        pytest.param(STORED | {"cardinality": 1}, GOOD, id="fewer-than-it-lists"),
        pytest.param(STORED | {"cardinality": 2**62}, GOOD, id="more-than-it-lists"),
        pytest.param(STORED | {"storageType": "x"}, GOOD, id="an-unknown-storage"),
        pytest.param(inline([3]), None, id="a-row-after-the-last"),
        pytest.param(inline([2**40]), None, id="a-row-far-beyond"),
        pytest.param(inline([0, 1], cardinality=1), None, id="an-inline-count-that-is-off"),
        pytest.param(inline([0], pathOrInlineDv=""), None, id="an-empty-inline-vector"),
        pytest.param(inline([0], sizeInBytes=1), None, id="an-inline-size-that-is-off"),
    ],
)
def test_an_invalid_deletion_vector_never_restores_rows(tmp_path, vector, data):
    made = Rows(tmp_path / "t", [field("x", "long")], features=("deletionVectors",))
    made.file("a.parquet", pa.table({"x": [1, 2, 3]}), vector=vector)
    if data is not None:
        (made.path / NAME).write_bytes(data)
    opened = made.open()
    for read in (
        lambda: opened.scan().to_arrow(),
        lambda: opened.scan("x > 100").to_arrow(),
        lambda: opened.scan(limit=1).to_arrow(),
        lambda: opened.scan(columns=[]).to_arrow(),
        lambda: opened.scan().count(),  # without statistics the file is read
    ):
        with pytest.raises(DeletionVectorError, match=r"a\.parquet"):
            read()


# --- partition values -----------------------------------------------------------------------------

WRONG = [
    ("byte", "128"), ("byte", "1.0"), ("short", "-32769"), ("integer", "seven"),
    ("integer", "2147483648"), ("long", "9223372036854775808"), ("long", "0x10"), ("long", "1e3"),
    ("float", "1,5"), ("double", "--1"), ("boolean", "maybe"), ("boolean", "2"),
    ("decimal(4,2)", "123.45"), ("decimal(4,2)", "1.234"), ("decimal(4,2)", "NaN"),
    ("date", "2024-02-30"), ("date", "yesterday"), ("date", "99999999-01-01"),
    ("timestamp", "2024-01-01 25:00:00"), ("timestamp", "noon"),
    ("timestamp_ntz", "2024-13-01 00:00:00"), ("long", "1" * 5000), ("double", "1e99999x"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), WRONG, ids=[f"{k}-{t:.20}" for k, t in WRONG])
def test_an_invalid_partition_value_is_refused(tmp_path, kind, value):
    features = ("timestampNtz",) if kind == "timestamp_ntz" else ()
    made = Rows(
        tmp_path / "t", [field("x", "long"), field("p", kind)], partition_columns=["p"],
        features=features,
    )  # fmt: skip
    made.file("a.parquet", pa.table({"x": [1]}), partition={"p": value})
    opened = made.open()
    for read in (
        lambda: opened.scan().to_arrow(),
        lambda: opened.scan("p is null").to_arrow(),
        lambda: opened.scan("p is not null").count(),
        lambda: opened.scan().min_max("p"),
    ):
        with pytest.raises(SchemaError, match="'p'"):
            read()
    assert opened.scan(columns=["x"]).to_arrow().num_rows == 1  # not requested
