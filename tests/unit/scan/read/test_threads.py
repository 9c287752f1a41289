"""Who decodes side by side: columns of a file while files are few, then the files alone."""

from __future__ import annotations

from unittest.mock import patch

import pyarrow as pa
import pytest

from lazydelta import ReadOptions
from lazydelta.parquet import DataFile
from lazydelta.scan.read import file_reader, reading
from tests.native.support import without_decoder
from tests.unit.scan.read.tables import Rows, field, inline


def asked_of(scan, *, cores, files_at_once):
    """Read a scan as on a machine of so many cores; return whether each file was given threads."""
    asked = []

    def opened(*args, threads, **more):
        asked.append(threads)
        return DataFile(*args, threads=threads, **more)

    with (
        without_decoder(),  # which sees for itself, and reads small files together
        patch.object(file_reader, "DataFile", opened),
        patch.object(reading, "threads_for", lambda _store, asked: asked or cores),
    ):
        options = ReadOptions(files_at_once=files_at_once, ordered=True)
        return asked, scan.to_arrow(options)["n"].to_pylist()


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
def test_columns_are_decoded_side_by_side_unless_files_keep_the_cores_busy(
    tmp_path, vector, cores, files_at_once, least, most
):
    """Which of the first files sees that there are more is a matter of chance."""
    made = Rows(tmp_path / "t", [field("n", "long")], features=("deletionVectors",))
    for at in range(4):
        content = pa.table({"n": [at, at + 10, at + 20]})
        made.file(f"{at}.parquet", content, vector=None if vector is None else inline(vector))
    asked, found = asked_of(made.open().scan(), cores=cores, files_at_once=files_at_once)
    assert len(asked) == 4
    assert least <= sum(asked) <= most
    left = (0, 1, 2) if vector is None else (0, 2)
    assert found == [at + 10 * n for at in range(4) for n in left]
