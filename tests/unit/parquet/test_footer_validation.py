"""Footer validation: valid footers are unchanged, and only bounds are ever removed.

Invalid footers are in `tests/bad_input/test_footers.py`.
"""

from __future__ import annotations

import io
import resource
from datetime import date
from decimal import Decimal

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.parquet import has_native_decoder
from lazydelta.parquet.footer import footer_validation as validation
from lazydelta.parquet.footer.file_footer import read_footer
from lazydelta.parquet.footer.footer_validation import validate_footer
from lazydelta.parquet.footer.thrift import BINARY, I64, Reader, ThriftError, without_fields
from lazydelta.parquet.native import is_valid_footer
from tests.footers import changes, edited, footer_of, parsed
from tests.native.support import without_decoder
from tests.thrift import encoded

ROWS = pa.table(
    {
        "i": pa.array([1, None, 3], pa.int32()),
        "s": ["a", "b", None],
        "day": [date(2026, 1, n) for n in (1, 2, 3)],
        "d": pa.array([Decimal(n) for n in (1, 2, 3)], pa.decimal128(20, 2)),
        "t": pa.array([1, 2, 3], pa.timestamp("us", "UTC")),
        "flag": [True, None, False],
        "list": pa.array([[1, None], [], None], pa.list_(pa.int64())),
        "deep": pa.array([[{"a": {"b": "x"}, "n": 1}]] * 3),
    }
)


def by_pyarrow(**options):
    sink = io.BytesIO()
    pq.write_table(ROWS, sink, **options)
    return sink.getvalue()


def by_polars():
    sink = io.BytesIO()
    pl.from_arrow(ROWS).write_parquet(sink)
    return sink.getvalue()


def by_duckdb(place):
    rows = ROWS  # noqa: F841 duckdb finds it by its name
    duckdb.sql("select * from rows").write_parquet(str(place / "d.parquet"))
    return (place / "d.parquet").read_bytes()


def by_parquet_rs(place):
    import deltalake

    deltalake.write_deltalake(place / "t", ROWS)
    (file,) = (place / "t").glob("*.parquet")
    return file.read_bytes()


WRITERS = {
    "pyarrow": lambda _: by_pyarrow(),
    "pyarrow-with-all-it-has": lambda _: by_pyarrow(
        version="1.0", compression="zstd", write_page_index=True, row_group_size=1,
        sorting_columns=[pq.SortingColumn(0)], bloom_filter_options={"i": True},
    ),
    "pyarrow-without-statistics": lambda _: by_pyarrow(write_statistics=False),
    "polars": lambda _: by_polars(),
    "duckdb": by_duckdb,
    "parquet-rs": by_parquet_rs,
}  # fmt: skip


@pytest.mark.parametrize("written", WRITERS.values(), ids=WRITERS)
def test_a_valid_footer_is_unchanged(tmp_path, written):
    whole = written(tmp_path)
    footer = footer_of(whole)
    with without_decoder():
        assert validate_footer(footer) is footer
    if has_native_decoder():
        assert is_valid_footer(footer)


def test_the_decoder_accepts_only_unchanged_footers():
    if not has_native_decoder():
        pytest.skip("the native decoder is not installed: `make native` builds it")
    whole = by_pyarrow()
    yes = no = 0
    for what, footer in changes(footer_of(whole), every=3):
        if not is_valid_footer(footer):
            no += 1
            continue
        yes += 1
        with without_decoder():
            assert validate_footer(footer) is footer, what
    assert yes > 100
    assert no > 100


def test_templates_agree_with_the_validator():
    """A template accepts nothing that the validator refuses."""
    whole = by_pyarrow(write_page_index=True)
    footers = dict(changes(footer_of(whole), every=7))
    with without_decoder():
        validation._chunk_templates.cache_clear()
        validated = {}
        for what, footer in footers.items():
            validated[what] = _verdict(footer)
            validation._chunk_templates.cache_clear()
        for _ in range(40):
            _verdict(footer_of(whole))
        known = [
            part for one in _kinds(whole) for part in validation._chunk_templates(one)._templates
        ]
        assert len(known) >= len(_kinds(whole))
        by_templates = {what: _verdict(footer) for what, footer in footers.items()}
    assert by_templates == validated
    assert len(set(by_templates.values())) > 5


def _kinds(whole):
    return set(_leaves(whole))


def _leaves(whole):
    look = validation._Validator(footer_of(whole))
    look.struct_of(validation._FILE)
    return look._leaves


def _verdict(footer):
    try:
        return "left" if validate_footer(footer) is footer else "changed"
    except ThriftError as error:
        return str(error)


@pytest.mark.parametrize("written", WRITERS.values(), ids=WRITERS)
def test_leaf_columns_are_those_of_pyarrow(tmp_path, written):
    whole = written(tmp_path)
    schema = pq.read_metadata(io.BytesIO(whole)).schema
    columns = [schema.column(at) for at in range(len(schema))]
    expected = [(c.max_repetition_level + 1, c.max_definition_level + 1) for c in columns]
    assert [kind[2:] for kind in _leaves(whole)] == expected
    paths = [validation._leaf_path(footer_of(whole), at) for at in range(len(columns))]
    assert paths == [column.path for column in columns]


def test_only_truncated_bounds_are_removed():
    def edit(root):
        root[4][0][1][0][3][12].set(6, BINARY, b"")

    whole = by_pyarrow()
    changed = edited(whole, edit)
    before, after = pq.read_metadata(io.BytesIO(whole)), read_footer(pa.BufferReader(changed))
    assert after.data == footer_of(changed)
    expected, found = (m.row_group(0).to_dict() for m in (before, after.metadata))
    assert found["columns"][0].pop("is_stats_set") is False
    assert expected["columns"][0].pop("is_stats_set") is True
    for columns in (expected["columns"], found["columns"]):
        columns[0].pop("statistics")
    assert found == expected
    assert after.metadata.schema.equals(before.schema)


# --- removed fields ---------------------------------------------------------------------------------

STEPS = st.lists(st.tuples(st.integers(1, 40), st.integers(0, 2**40), st.booleans()), max_size=12)


@given(STEPS)
def test_removing_fields(steps):
    fields, number, left = [], 0, {}
    for step, value, goes in steps:
        number += step
        fields.append((number, value, goes))
        if not goes:
            left[number] = value
    data, gone = _written(fields)
    assert Reader(without_fields(data, gone)).struct() == left


def _written(fields):
    """Return a struct of integers, and the positions of those to remove."""
    data, gone, last = b"", [], 0
    for number, value, goes in fields:
        start = len(data)
        short = number - last < 16
        head = bytes([(number - last) << 4 | I64]) if short else bytes([I64]) + _long(number)
        data += head + _long(value)
        if goes:
            gone.append((start, len(data), number))
        last = number
    return data + b"\0", gone


def _long(number):
    return encoded([(1, I64, number)])[1:-1]


# --- read requests ----------------------------------------------------------------------------------


class Counted(io.BytesIO):
    """A file that records what was read of it."""

    def __init__(self, data):
        super().__init__(data)
        self.reads = []

    def read(self, size=-1):
        found = super().read(size)
        self.reads.append(len(found))
        return found


def test_a_footer_is_one_read():
    file = Counted(by_pyarrow())
    assert read_footer(pa.PythonFile(file, mode="r")).schema.names == ROWS.column_names
    assert len(file.reads) == 1
    file = Counted(by_pyarrow() + bytes(10) + by_pyarrow())
    read_footer(pa.PythonFile(file, mode="r"))
    assert len(file.reads) == 1


def test_a_long_footer_is_two_reads_and_no_byte_is_read_twice():
    notes = {"notes": "x" * 200_000}
    sink = io.BytesIO()
    pq.write_table(ROWS.replace_schema_metadata(notes), sink)
    file = Counted(sink.getvalue())
    footer = read_footer(pa.PythonFile(file, mode="r"))
    assert footer.data == footer_of(sink.getvalue())
    assert len(file.reads) == 2
    assert sum(file.reads) == len(footer.data) + 8


@pytest.mark.parametrize("size", [0, 1, 7, 8, 11, 12, 200])
def test_a_truncated_file_is_not_parquet(size):
    with pytest.raises(ThriftError, match=f"not a Parquet file: .* its {size} bytes"):
        read_footer(pa.BufferReader(by_pyarrow()[:size]))


def test_a_footer_larger_than_its_file():
    whole = by_pyarrow()
    claimed = whole[:-8] + (2**31).to_bytes(4, "little") + b"PAR1"
    with pytest.raises(ThriftError, match=f"2147483648 bytes, but the file has {len(whole)}"):
        read_footer(pa.BufferReader(claimed))


def test_a_footer_that_is_too_long_is_not_read(tmp_path):
    file = tmp_path / "a.parquet"
    length = (257 << 20).to_bytes(4, "little")
    with file.open("wb") as out:
        out.truncate(300 << 20)  # of nothing, which takes no room
        out.seek(0, io.SEEK_END)
        out.write(length + b"PAR1")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ThriftError, match="its footer has 269484032 bytes, more than 268435456"):
        read_footer(pa.OSFile(str(file)))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100 << 10  # kilobytes


def test_an_encrypted_file_has_its_own_error():
    whole = by_pyarrow()
    with pytest.raises(ThriftError, match="encrypted"):
        read_footer(pa.BufferReader(whole[:-4] + b"PARE"))


def test_the_mutator_reads_what_it_writes():
    whole = by_pyarrow()
    assert edited(whole, lambda root: None) == whole
    assert parsed(footer_of(whole))[3].value == ROWS.num_rows
