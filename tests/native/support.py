"""Helpers of the decoder tests: read a file with and without the decoder."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import replace
from unittest.mock import patch

import pyarrow as pa
import pyarrow.types as pt

from lazydelta import ReadOptions
from lazydelta.parquet import DataFile, native_reader
from lazydelta.parquet import native as compiled
from lazydelta.store import open_store

LIMIT = 1 << 30
_VIEWS = (pa.string_view(), pa.binary_view())
_PLAIN = {
    pa.string_view(): pa.string(), pa.large_string(): pa.string(),
    pa.binary_view(): pa.binary(), pa.large_binary(): pa.binary(),
}  # fmt: skip
_BITS = {pa.float16(): pa.int16(), pa.float32(): pa.int32(), pa.float64(): pa.int64()}


def without_decoder():
    """Read as if the decoder were not installed."""
    return patch.object(compiled, "_decoder", lambda: None)


@contextmanager
def watched():
    """Yield a list with one entry per call of the decoder: whether it decoded the rows.

    A file that matches a template is one call; without a match there is a second call.
    """
    decode, open_alike, seen = compiled.decode_row_groups, compiled.FileTemplate.open, []

    def watching(*args, **more):
        found = decode(*args, **more)
        seen.append(found is not None)
        return found

    def watching_alike(*args):
        found = open_alike(*args)
        if found is not None:
            seen.append(True)
        return found

    with (
        patch.object(native_reader, "decode_row_groups", watching),
        patch.object(compiled.FileTemplate, "open", watching_alike),
    ):
        yield seen


def opened(path, limit=LIMIT):
    """Return a data file on this machine."""
    return DataFile(open_store(str(path.parent)), path.name, max_decoded_bytes=limit)


def read(path, *, views, columns=None, row_groups=None, batch_rows=1 << 20, limit=LIMIT):
    """Return the rows of a file as a table, and the position of each; None if there are no rows.

    With views it is the decoder's if it can be, else pyarrow's.
    """
    with closing(opened(path, limit)) as file:
        names = file.schema.names if columns is None else columns
        groups = range(file.metadata.num_row_groups) if row_groups is None else row_groups
        if views:
            found = list(viewed_rows(file, names, groups, batch_rows))
        else:
            found = list(file.read(names, groups, batch_rows=batch_rows, native=False))
    assert all(rows.length == rows.columns.num_rows <= batch_rows for rows in found)
    positions = [at for rows in found for at in range(rows.start, rows.end)]
    return _table([rows.columns for rows in found]), positions


def viewed_rows(file, columns, row_groups, batch_rows):
    """Yield all rows of a file, with views if the decoder reads them."""
    for rows in file.read(columns, row_groups, batch_rows=batch_rows, views=True):
        assert rows.selected is None
        yield rows


def read_chosen(
    path, kept, *, views, columns=None, row_groups=None, batch_rows=1 << 20, limit=LIMIT
):
    """Return the selected rows of a file as a table; None if there are none."""
    with closing(opened(path, limit)) as file:
        names = file.schema.names if columns is None else columns
        groups = range(file.metadata.num_row_groups) if row_groups is None else row_groups
        found = file.read(names, groups, batch_rows=batch_rows, keep=kept, views=views)
        parts = [
            rows.columns if rows.selected is None else rows.columns.filter(rows.selected)
            for rows in found
        ]
    assert all(part.num_rows <= batch_rows for part in parts)
    return _table([part for part in parts if part.num_rows])


def _table(batches):
    # Row groups with a dictionary and those without are of two types in pyarrow.
    parts = [_looked_up(batch) for batch in batches]
    return pa.Table.from_batches(parts) if parts else None


def _looked_up(batch):
    """Return rows without dictionaries and large types; views stay views."""
    return pa.RecordBatch.from_arrays(
        [_small(array) for array in batch.columns], names=batch.schema.names
    )


def _small(array):
    if pt.is_dictionary(array.type):
        return _small(array.dictionary_decode())
    return array if is_view(array.type) else array.cast(_PLAIN.get(array.type, array.type))


def is_view(kind):
    return kind in _VIEWS


def plain(rows):
    """Return rows for comparison: one string type, and floats as bits."""
    if rows is None:
        return None
    arrays = [_plain(rows.column(at)) for at in range(rows.num_columns)]
    return pa.Table.from_arrays(arrays, names=rows.schema.names)


def _plain(column):
    kind = column.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(column.cast(kind.storage_type))
    if pt.is_dictionary(kind):
        return _plain(column.cast(kind.value_type))
    if kind in _BITS:
        return pa.chunked_array([one.view(_BITS[kind]) for one in column.chunks], _BITS[kind])
    return column.cast(_PLAIN.get(kind, kind))


def three_ways(feed, **options):
    """Read a feed with views, without the decoder, and without views; compare the rows.

    Returns:
        The rows with views, and one entry per call of the decoder: whether it decoded.
    """
    views = ReadOptions(schema_force_view_types=True, ordered=True, **options)
    with watched() as taken:
        found = feed.to_arrow(views)
    with without_decoder():
        undecoded = feed.to_arrow(views)
    shown = feed.to_arrow(replace(views, schema_force_view_types=False))
    found.validate(full=True)
    assert found.schema.equals(undecoded.schema, check_metadata=True)
    assert found.schema.names == shown.schema.names
    assert not any(is_view(kind) for kind in shown.schema.types)
    assert found.num_rows == undecoded.num_rows == shown.num_rows
    assert plain(found).equals(plain(undecoded))
    assert plain(found).equals(plain(shown))
    return found, taken
