"""Which files the decoder reads and which pyarrow reads: the rows are the same."""

from __future__ import annotations

import base64

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.native.support import is_view, opened, plain, read, viewed_rows, watched

COUNTS = [1, None, -1]
TIMES = pa.array(COUNTS, pa.timestamp("us"))
BERLIN = pa.timestamp("s", "Europe/Berlin")
AS_OF_OLD = {"use_deprecated_int96_timestamps": True}


def both_ways(path, columns=None):
    """Return the rows with views and whether the decoder read them, after comparing with pyarrow."""
    expected, places = read(path, views=False, columns=columns)
    with watched() as taken:
        found, positions = read(path, views=True, columns=columns)
    found.validate(full=True)
    assert positions == places
    assert plain(found).equals(plain(expected))
    return found, taken == [True]


@pytest.mark.parametrize(
    ("column", "options"),
    [
        pytest.param(pa.array(["a", None, "é" * 40]), {}, id="strings"),
        pytest.param(pa.array([b"", None, b"\0" * 40]), {"compression": "zstd"}, id="binary"),
        pytest.param(pa.array(["a"] * 50), {"compression": "none"}, id="dictionary-strings"),
        pytest.param(pa.array(["a", None], pa.large_string()), {"store_schema": False}, id="large"),
    ],
)
def test_strings_as_views(tmp_path, column, options):
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet", **options)
    found, taken = both_ways(tmp_path / "a.parquet")
    assert taken
    assert is_view(found.schema.field("x").type)


@pytest.mark.parametrize(
    ("column", "options"),
    [
        pytest.param(pa.array(["a"]), {"compression": "gzip"}, id="gzip"),
        pytest.param(pa.array(["a"]), {"compression": "brotli"}, id="brotli"),
        pytest.param(pa.array(["a"]), {"compression": "lz4"}, id="lz4"),
        pytest.param(pa.array([["a"]]), {}, id="lists"),
        pytest.param(pa.array([{"t": "a"}]), {}, id="structs"),
        pytest.param(pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int8())), {}, id="maps"),
        pytest.param(TIMES.cast(pa.timestamp("us", "UTC")), AS_OF_OLD, id="int96"),
        pytest.param(TIMES, AS_OF_OLD | {"store_schema": False}, id="int96-without-schema"),
        pytest.param(pa.array(COUNTS, BERLIN), {}, id="zoned-seconds"),
        pytest.param(pa.array(["a", None], pa.large_string()), {}, id="large-strings"),
        pytest.param(pa.array([b"a", None], pa.large_binary()), {}, id="large-binary"),
        pytest.param(pa.array(["a", "a"]).dictionary_encode(), {}, id="dictionary-strings"),
    ],
)
def test_unsupported_columns_are_read_by_pyarrow(tmp_path, column, options):
    pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet", **options)
    found, taken = both_ways(tmp_path / "a.parquet")
    assert not taken
    assert not is_view(found.schema.field("x").type)


@pytest.mark.parametrize(
    "column",
    [
        pytest.param(pa.array([86_400_000, None], pa.date64()), id="date64"),
        pytest.param(pa.array([7, None]).dictionary_encode(), id="dictionary-numbers"),
        pytest.param(pa.array([7, None], pa.duration("us")), id="durations"),
        pytest.param(pa.nulls(2), id="nulls"),
        pytest.param(pa.array(["a", None], pa.string_view()), id="views"),
    ],
)
def test_same_rows_with_and_without_the_decoder(tmp_path, column):
    rows = pa.table({"x": column, "t": ["a", "b"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    both_ways(tmp_path / "a.parquet")
    assert both_ways(tmp_path / "a.parquet", ["t"])[1]


def test_int96_timestamps(tmp_path):
    """From year 1 to 9999, and around the start of the Gregorian calendar."""
    micros = [0, -1, 1, -62_135_596_800_000_000, 253_402_300_799_999_999, -12_219_292_800_000_001]
    written = pa.table({"x": pa.array(micros, pa.timestamp("us"))})
    pq.write_table(written, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True)
    found, _ = both_ways(tmp_path / "a.parquet")
    assert found["x"].cast(pa.int64()).to_pylist() == micros


def test_a_column_with_the_path_of_a_nested_field(tmp_path):
    """`a.b` is a column, and also a field of a struct: they must not be confused."""
    rows = pa.table({"a.b": ["flat"], "a": [{"b": "part"}], "c": ["x"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    for columns in (["a.b"], ["a"], ["c"], ["c", "a.b"]):
        both_ways(tmp_path / "a.parquet", columns)
    assert both_ways(tmp_path / "a.parquet", ["c"])[1]


@pytest.mark.parametrize("name", ["", " ", "é", "x y", "X", "x\0y", "list", "a" * 1000])
def test_unusual_column_names(tmp_path, name):
    rows = pa.table({"before": [1, 2], name: ["a", None], "x": ["b", "c"]})
    pq.write_table(rows, tmp_path / "a.parquet")
    found, taken = both_ways(tmp_path / "a.parquet", [name])
    assert taken or "\0" in name  # which has no place in Arrow's C interface
    assert found[name].to_pylist() == ["a", None]


def test_columns_in_another_order(tmp_path):
    pq.write_table(pa.table({"b": ["b1"], "a": ["a1"], "c": [1]}), tmp_path / "a.parquet")
    for columns in (["a", "b"], ["c", "b", "a"], ["c", "a"]):
        found, taken = both_ways(tmp_path / "a.parquet", columns)
        assert taken
        assert found.select(["a"]).to_pylist() == [{"a": "a1"}]


def test_no_columns(tmp_path):
    pq.write_table(pa.table({"x": ["a"] * 10}), tmp_path / "a.parquet", row_group_size=4)
    rows = list(viewed_rows(opened(tmp_path / "a.parquet"), [], [0, 2], 3))
    assert [(one.start, one.length, one.columns) for one in rows] == [
        (0, 3, None),
        (3, 1, None),
        (8, 2, None),
    ]


@pytest.mark.usefixtures("no_decoder")
def test_without_the_decoder_there_are_no_views(tmp_path):
    rows = pa.table({"t": ["a", None], "b": [b"a", b""], "n": [1, 2]})
    pq.write_table(rows, tmp_path / "a.parquet")
    found, taken = both_ways(tmp_path / "a.parquet")
    assert not taken
    assert found.equals(rows)


# --- footers that only pyarrow understands ----------------------------------------------------------


def foreign(schema):
    return {"ARROW:schema": base64.b64encode(schema.serialize().to_pybytes())}


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param(foreign(pa.schema({"q": pa.string(), "y": pa.int64()})), id="other-names"),
        pytest.param(foreign(pa.schema({"x": pa.string()})), id="fewer-columns"),
        pytest.param(foreign(pa.schema({"y": pa.int64(), "x": pa.string()})), id="another-order"),
        pytest.param(foreign(pa.schema({"x": pa.int8(), "y": pa.string()})), id="other-types"),
        pytest.param({"note": b"\xff\xfe"}, id="binary-metadata"),
    ],
)
def test_foreign_footer_metadata_is_ignored(tmp_path, metadata):
    rows = pa.table({"x": ["a", None], "y": [1, 2]})
    with pq.ParquetWriter(tmp_path / "a.parquet", rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(metadata)
    found, _ = both_ways(tmp_path / "a.parquet")
    assert plain(found).equals(rows)


def test_a_dictionary_of_an_unsupported_type(tmp_path):
    prices = pa.array(["1.50", "2.50"]).cast(pa.decimal128(5, 2)).dictionary_encode()
    pq.write_table(pa.table({"x": prices, "y": ["a", "b"]}), tmp_path / "a.parquet")
    both_ways(tmp_path / "a.parquet")
