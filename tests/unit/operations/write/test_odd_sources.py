"""Unusual row sources: encodings, object columns, readers that fail."""

from __future__ import annotations

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import lazydelta as ld
from lazydelta.errors import ConfigError, SchemaError, SchemaMismatchError

STRINGS = ["x", None, "y", "x"]


def written(path, data):
    ld.write(path, data)
    return ld.Table.open(path).to_arrow().to_pydict()


def of_runs(kind):
    ends = pa.array([1, 2, 3, 4, 9], pa.int32())
    whole = pa.RunEndEncodedArray.from_arrays(ends, pa.array([*STRINGS, "z"], kind))
    return whole.slice(0, 4)


# --- Arrow cannot take from views, nor repeat them, so they are decoded another way


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.string_view()], ids=str)
def test_encoded_strings_of_every_kind(tmp_path, kind):
    places = pa.array([0, None, 1, 0])
    column = pa.DictionaryArray.from_arrays(places, pa.array(["x", "y"], kind))
    nested = pa.ListArray.from_arrays(pa.array([0, 2, 2, 3, 4], pa.int32()), column)
    found = written(tmp_path, {"d": column, "r": of_runs(kind), "l": nested})
    assert found == {"d": STRINGS, "r": STRINGS, "l": [["x", None], [], ["y"], ["x"]]}


def test_run_ends_within_a_slice(tmp_path):
    assert written(tmp_path, {"r": of_runs(pa.string_view()).slice(1, 2)}) == {"r": [None, "y"]}


@pytest.mark.parametrize("kind", [pl.Categorical(), pl.Enum(["x", "y", "Object"])], ids=str)
@pytest.mark.parametrize("lazy", [False, True])
def test_categories_of_polars(tmp_path, kind, lazy):
    frame = pl.DataFrame({"c": pl.Series(STRINGS, dtype=kind)})
    assert written(tmp_path, frame.lazy() if lazy else frame) == {"c": STRINGS}


# --- what would be nonsense as rows


@pytest.mark.parametrize("lazy", [False, True])
def test_objects_of_polars_are_refused_and_not_written_as_addresses(tmp_path, lazy):
    frame = pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)})
    with pytest.raises(ConfigError, match="column 'o' has Python objects"):
        ld.write(tmp_path, frame.lazy() if lazy else frame)
    assert not list(tmp_path.iterdir())


UNFIT = {
    "a-column-of-int-and-text": lambda: pd.DataFrame({"a": [1, "x"]}),
    "two-columns-of-one-name": lambda: pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "an-index-named-like-a-column": lambda: pd.DataFrame({"a": [1]}, pd.Index([5], name="a")),
    "a-sparse-column": lambda: pd.DataFrame({"a": pd.arrays.SparseArray([0, 1])}),
    "complex-numbers": lambda: pd.DataFrame({"a": [1 + 2j]}),
    "a-pandas-series": lambda: pd.Series([1, 2], name="a"),
    "a-polars-series": lambda: pl.Series("a", [1, 2]),
    "an-array-of-numbers": lambda: pa.array([1, 2]),
    "integers-of-128-bits": lambda: pl.DataFrame({"a": pl.Series([1], dtype=pl.Int128)}),
    "the-same-lazily": lambda: pl.LazyFrame({"a": pl.Series([1], dtype=pl.Int128)}),
}


@pytest.mark.parametrize("make", UNFIT.values(), ids=UNFIT.keys())
def test_unconvertible_data_is_a_typed_error(tmp_path, make):
    # An older pandas has no Arrow interface; the error names what is accepted instead.
    expression_error = r"^data: (cannot convert .* to Arrow: |cannot read rows from )"
    with pytest.raises(ConfigError, match=expression_error):
        ld.write(tmp_path, make())
    assert not list(tmp_path.iterdir())


def test_a_lone_surrogate_is_refused_with_a_printable_message(tmp_path):
    with pytest.raises(ConfigError, match="surrogates not allowed") as refused:
        ld.write(tmp_path, pd.DataFrame({"a": pd.Series(["\ud800"], dtype=object)}))
    assert str(refused.value).isascii()


def test_rows_that_are_dicts_are_refused_with_a_cure(tmp_path):
    with pytest.raises(ConfigError, match="from_pylist"):
        ld.write(tmp_path, [{"a": 1}, {"a": 2}])


def test_items_that_differ_in_nullability_are_refused(tmp_path):
    whole = pa.table({"a": [1]}, schema=pa.schema([pa.field("a", pa.int64(), nullable=False)]))
    with pytest.raises(SchemaMismatchError, match="a: int64, not a: int64 not null"):
        ld.write(tmp_path, iter([whole, pa.table({"a": [2]})]))


@pytest.mark.parametrize(("lists", "fits"), [(49, True), (50, False)])
def test_rows_are_nested_as_deep_as_they_can_be_read(tmp_path, lists, fits):
    value = 7
    for _ in range(lists):
        value = [value]
    if fits:
        assert written(tmp_path, {"x": [value]}) == {"x": [value]}
        return
    with pytest.raises(SchemaError, match="nested too deep"):
        ld.write(tmp_path, {"x": [value]})
    assert not list(tmp_path.iterdir())


def test_levels_of_an_index_that_have_names_are_columns(tmp_path):
    index = pd.MultiIndex.from_tuples([(1, "x"), (2, "y")], names=["k", None])
    assert written(tmp_path, pd.DataFrame({"a": [7, 8]}, index)) == {"k": [1, 2], "a": [7, 8]}


def test_an_error_of_a_reader_keeps_its_type(tmp_path):
    class OutOfInkError(Exception):
        pass

    def batches():
        yield pa.record_batch({"a": [1]})
        raise OutOfInkError

    reader = pa.RecordBatchReader.from_batches(pa.schema({"a": pa.int64()}), batches())
    with pytest.raises(OutOfInkError):
        ld.write(tmp_path, reader)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("length", [2, 2000])
@pytest.mark.parametrize("partition_by", [None, "t"])
def test_invalid_utf8_is_refused_by_column(tmp_path, length, partition_by):
    places = pa.array([0, length], pa.int32()).buffers()[1]
    bad = pa.Array.from_buffers(pa.string(), 1, [None, places, pa.py_buffer(b"\xff" * length)])
    with pytest.raises(SchemaError, match="column 't'"):
        ld.write(tmp_path, pa.table({"t": bad, "x": [1]}), partition_by=partition_by)
    assert not list(tmp_path.rglob("*.parquet"))


@pytest.mark.parametrize("kind", [pa.date32(), pa.timestamp("us", "UTC")], ids=str)
def test_a_partition_value_out_of_range_names_its_column(tmp_path, kind):
    far = pa.array([2**31 - 1], pa.int32()) if pa.types.is_date(kind) else pa.array([2**62])
    with pytest.raises(SchemaError, match="partition column 'p'"):
        ld.write(tmp_path, {"p": far.cast(kind), "x": [1]}, partition_by="p")
