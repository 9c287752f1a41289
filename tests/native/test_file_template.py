"""File templates: larger files of a known layout are opened by the decoder alone."""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lazydelta import ReadOptions
from lazydelta.errors import DataFileError, DataFileNotFoundError, DeletionVectorError
from lazydelta.parquet import FileTemplate
from lazydelta.scan import tuning
from tests.native.support import is_view, plain, without_decoder
from tests.native.test_small_files import FIELDS
from tests.native.test_small_files import rows_of as few_rows
from tests.unit.scan.read.tables import Rows, field, inline

IN_ORDER = ReadOptions(ordered=True, files_at_once=1)
FILES = 12


@pytest.fixture(autouse=True)
def _no_file_is_small():
    with patch.object(tuning, "SMALL_FILE_BYTES", 0):
        yield


@contextmanager
def counted():
    """Yield a list with one entry per file: whether it matched a template."""
    open_alike, seen = FileTemplate.open, []

    def watching(self, path):
        found = open_alike(self, path)
        seen.append(found is not None)
        return found

    with patch.object(FileTemplate, "open", watching):
        yield seen


def rows_of(at, count=300):
    return few_rows(at, count)


def same_rows(table, options=IN_ORDER, **scan):
    """Read with the decoder, with views and without, and without the decoder; return the rows
    with views, and which files were like one before.
    """
    with without_decoder():
        expected = table.scan(**scan).to_arrow(options)
    with counted() as seen:
        found = table.scan(**scan).to_arrow(options)
    assert found.schema.equals(expected.schema, check_metadata=True)
    assert plain(found).combine_chunks().equals(plain(expected).combine_chunks())
    viewed = replace(options, schema_force_view_types=True)
    with without_decoder():
        schema = table.scan(**scan).to_arrow(viewed).schema
    views = table.scan(**scan).to_arrow(viewed)
    views.validate(full=True)
    assert views.schema.equals(schema, check_metadata=True)
    assert plain(views).combine_chunks().equals(plain(expected).combine_chunks())
    for batch in table.scan(**scan).to_batches(viewed):
        assert batch.schema.equals(schema, check_metadata=True)
    return views, seen


def many(tmp_path, fields=FIELDS, make=rows_of, **options):
    made = Rows(tmp_path / "t", fields)
    for at in range(FILES):
        made.file(f"{at:03}.parquet", make(at), **options)
    return made.commit()


@pytest.mark.parametrize("codec", ["none", "snappy", "zstd", "gzip"])
def test_files_of_one_layout(tmp_path, codec):
    made = many(tmp_path, compression=codec, row_group_size=130)
    found, seen = same_rows(made.open())
    assert found.num_rows == FILES * 300
    assert is_view(found.schema.field("t").type)
    assert seen == ([] if codec == "gzip" else [True] * (FILES - 1))


def test_some_columns_in_another_order(tmp_path):
    """The decoder returns them in file order; they are reordered after decoding."""
    found, seen = same_rows(many(tmp_path).open(), columns=["b", "n"])
    assert found.schema.names == ["b", "n"]
    assert all(seen)
    assert len(seen) == FILES - 1


def test_no_columns(tmp_path):
    assert many(tmp_path).open().scan(columns=[]).to_arrow().num_rows == FILES * 300


def test_batches_respect_batch_rows(tmp_path):
    found, seen = same_rows(many(tmp_path).open(), replace(IN_ORDER, batch_rows=70))
    assert any(seen)
    assert max(len(chunk) for chunk in found["n"].chunks) == 70


def test_large_rows_are_returned_in_smaller_batches(tmp_path):
    def wide(at):
        return pa.table({"n": range(3000), "t": [f"{at} {n}" + "x" * 30_000 for n in range(3000)]})

    made = Rows(tmp_path / "t", FIELDS[:2])
    for at in range(3):
        made.file(f"{at}.parquet", wide(at), use_dictionary=False)
    with counted() as seen:
        batches = list(made.commit().open().scan().to_batches(IN_ORDER))
    assert seen == [True, True]
    assert sum(batch.num_rows for batch in batches) == 9000
    assert max(batch.num_rows for batch in batches) < 1200  # 32 MB


def test_column_mapping(tmp_path):
    mapped = {"delta.columnMapping.mode": "name"}
    names = [("A", "long"), ("B", "string"), ("C", "double")]
    fields = [
        field(name, kind, physical=f"col-{at}", column_id=at + 1)
        for at, (name, kind) in enumerate(names)
    ]
    made = Rows(tmp_path / "t", fields, configuration=mapped)
    for at in range(FILES):
        rows = rows_of(at).select(["n", "t", "x"]).rename_columns(["col-0", "col-1", "col-2"])
        made.file(f"{at:03}.parquet", rows)
    found, seen = same_rows(made.commit().open())
    assert found.schema.names == ["A", "B", "C"]
    assert seen == [True] * (FILES - 1)


def test_partitions_and_deleted_rows(tmp_path):
    made = Rows(
        tmp_path / "t", [*FIELDS, field("p", "integer")], partition_columns=["p"],
        features=["deletionVectors"],
    )  # fmt: skip
    for at in range(FILES):
        vector = inline(range(at, 300, at + 1)) if at % 3 == 2 else None
        made.file(f"{at:03}.parquet", rows_of(at), partition={"p": str(at % 4)}, vector=vector)
    found, seen = same_rows(made.commit().open())
    deleted = sum(len(range(at, 300, at + 1)) for at in range(FILES) if at % 3 == 2)
    assert found.num_rows == FILES * 300 - deleted
    assert seen == [True] * (FILES - 1)
    assert found["p"].combine_chunks()[-1].as_py() == (FILES - 1) % 4


def test_a_file_with_all_rows_deleted(tmp_path):
    made = Rows(tmp_path / "t", FIELDS, features=["deletionVectors"])
    for at in range(4):
        made.file(f"{at}.parquet", rows_of(at), vector=inline(range(300)) if at == 2 else None)
    found, seen = same_rows(made.commit().open())
    assert found.num_rows == 900
    assert seen == [True] * 3


def test_a_deletion_vector_beyond_the_last_row(tmp_path):
    made = Rows(tmp_path / "t", FIELDS, features=["deletionVectors"])
    for at in range(4):
        made.file(f"{at}.parquet", rows_of(at), vector=inline([300]) if at == 3 else None)
    with counted() as seen, pytest.raises(DeletionVectorError, match=r"row 300.*300 rows"):
        made.commit().open().scan().to_arrow(IN_ORDER)
    assert seen == [True] * 3


def test_files_without_rows(tmp_path):
    made = many(tmp_path, make=lambda at: rows_of(at, at % 3 * 50))
    found, seen = same_rows(made.open())
    assert found.num_rows == FILES * 50
    assert any(seen)


def test_type_conversions(tmp_path):
    """Files from before and after a type widening have different templates."""
    widened = {"delta.enableTypeWidening": "true"}
    made = Rows(tmp_path / "t", FIELDS[:2], configuration=widened, features=["typeWidening"])
    for at in range(FILES):
        rows = rows_of(at).select(["n", "t"])
        if at < FILES // 2:
            rows = rows.set_column(0, "n", rows["n"].cast(pa.int32()))
        made.file(f"{at:03}.parquet", rows)
    found, seen = same_rows(made.commit().open())
    assert found["n"].type == pa.int64()
    assert seen.count(False) == 1


def test_added_and_dropped_columns(tmp_path):
    made = many(tmp_path, make=lambda at: rows_of(at).drop_columns(["x"] if at in {5, 6} else []))
    found, seen = same_rows(made.open())
    assert found["x"].null_count > 600
    assert seen.count(False) == 2


def test_files_of_different_layouts_are_not_tried_for_long(tmp_path):
    made = many(tmp_path, make=lambda at: rows_of(at).select(["n", "t", "x", "b"][at % 2 :]))
    _, seen = same_rows(made.open())
    assert seen == [False] * 4


# --- what is wrong with one of them -----------------------------------------------------------------


@pytest.mark.parametrize("what", ["missing", "cut off", "no Parquet", "a pipe", "a folder"])
def test_an_error_names_the_file(tmp_path, what):
    made = many(tmp_path)
    place = made.path / "007.parquet"
    whole = place.read_bytes()
    place.unlink()
    if what == "cut off":
        place.write_bytes(whole[:-20])
    elif what == "no Parquet":
        place.write_bytes(b"PAR1 and something else PAR1")
    elif what == "a pipe":
        os.mkfifo(place)  # without a writer, opening it blocks forever
    elif what == "a folder":
        place.mkdir()
    expected = DataFileError if what in {"cut off", "no Parquet"} else DataFileNotFoundError
    with pytest.raises(expected, match=r"007\.parquet"):
        made.open().scan().to_arrow()


def test_invalid_utf8_in_mid_file(tmp_path):
    """With views they are refused. Without, pyarrow returns the remaining rows, none twice."""
    raw = [b"\xffnone" if n == 250 else b"text %d" % n for n in range(300)]
    strings = pa.Array.from_buffers(pa.string(), 300, pa.array(raw).buffers())
    made = Rows(tmp_path / "t", FIELDS[:2])
    for at in range(4):
        rows = rows_of(at).select(["n", "t"])
        if at == 3:
            rows = rows.set_column(1, "t", strings)
        made.file(f"{at}.parquet", rows, use_dictionary=False)
    made.commit()
    options = replace(IN_ORDER, batch_rows=64)
    with counted() as seen:
        found = made.open().scan().to_arrow(options)
    with without_decoder():
        expected = made.open().scan().to_arrow(options)
    assert seen == [True] * 3
    assert found["n"].equals(expected["n"])
    assert found["t"].cast(pa.binary()).equals(expected["t"].cast(pa.binary()))
    with pytest.raises(DataFileError, match=r"3\.parquet.*utf-8"):
        made.open().scan().to_arrow(replace(options, schema_force_view_types=True))


def test_a_damaged_page(tmp_path):
    made = many(tmp_path, compression="snappy", use_dictionary=False)
    place = made.path / "007.parquet"
    chunk = pq.read_metadata(place).row_group(0).column(1)
    data = bytearray(place.read_bytes())
    start = chunk.data_page_offset + chunk.total_compressed_size // 2
    data[start : start + 400] = b"\xff" * 400
    place.write_bytes(data)
    with counted() as seen, pytest.raises(DataFileError, match=r"007\.parquet"):
        made.open().scan().to_arrow(IN_ORDER)
    assert seen == [True] * 7


def test_a_highly_compressed_file(tmp_path):
    """Compressed zeros: the decoder leaves them to the reader of single files, which checks the limit."""

    def zeros(at):
        return pa.table({"n": np.zeros(400_000 if at == 2 else 10, np.int64)})

    made = Rows(tmp_path / "t", FIELDS[:1])
    for at in range(4):
        made.file(f"{at}.parquet", zeros(at), compression="zstd", use_dictionary=False)
    made.commit()
    with counted() as seen, pytest.raises(DataFileError, match=r"2\.parquet.*max_inflated_bytes"):
        made.open().scan().to_arrow(replace(IN_ORDER, max_inflated_bytes=100_000))
    assert seen == [True, False]
    with counted() as seen:
        assert made.open().scan().to_arrow(IN_ORDER).num_rows == 400_030
    assert seen == [True] * 3


def test_a_read_that_is_stopped_early(tmp_path):
    with counted() as seen, many(tmp_path).open().scan().to_batches(IN_ORDER) as batches:
        next(batches)
    assert len(seen) < FILES


@pytest.mark.parametrize("options", [{"file_column_name": "file"}, {}])
def test_reads_that_need_single_files(tmp_path, options):
    table = many(tmp_path).open()
    with counted() as seen:
        found = table.scan(limit=None if options else 700).to_arrow(replace(IN_ORDER, **options))
    assert found.num_rows == (FILES * 300 if options else 700)
    assert seen == []
