"""Parallelism: columns of a file while files are few, then files only."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest

from lazydelta import ReadOptions
from lazydelta.parquet import DataFile
from lazydelta.scan.read import file_reader, reading
from tests.native.support import without_decoder
from tests.unit.scan.read.tables import Rows, field, inline


def thread_arguments(scan, *, cores, files_at_once):
    """Read a scan with a number of cores; return the `threads` argument of each file."""
    threads_used = []

    def opened(*args, threads, **more):
        threads_used.append(threads)
        return DataFile(*args, threads=threads, **more)

    with (
        without_decoder(),  # opens files itself, and batches small ones
        patch.object(file_reader, "DataFile", opened),
        patch.object(reading, "threads_for", lambda _store, requested: requested or cores),
    ):
        options = ReadOptions(files_at_once=files_at_once, ordered=True)
        return threads_used, scan.to_arrow(options)["n"].to_pylist()


@pytest.mark.parametrize("vector", [None, [1]])
@pytest.mark.parametrize(
    ("cores", "files_at_once", "least", "most"),
    [
        pytest.param(1, None, 0, 0, id="one-core"),
        pytest.param(2, 1, 4, 4, id="one-file-at-a-time"),
        pytest.param(2, None, 0, 1, id="more-files-than-cores"),
        pytest.param(8, None, 4, 4, id="fewer-files-than-cores"),
    ],
)
def test_columns_are_decoded_in_parallel_only_while_files_are_few(
    tmp_path, vector, cores, files_at_once, least, most
):
    """The first files may be opened before the reader knows that there are more."""
    made = Rows(tmp_path / "t", [field("n", "long")], features=("deletionVectors",))
    for at in range(4):
        content = pa.table({"n": [at, at + 10, at + 20]})
        made.file(f"{at}.parquet", content, vector=None if vector is None else inline(vector))
    threads_used, found = thread_arguments(
        made.open().scan(), cores=cores, files_at_once=files_at_once
    )
    assert len(threads_used) == 4
    assert least <= sum(threads_used) <= most
    left = (0, 1, 2) if vector is None else (0, 2)
    assert found == [at + 10 * n for at in range(4) for n in left]
