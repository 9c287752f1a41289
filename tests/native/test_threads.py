"""Concurrent readers, parallel decoding of one file, forks, and stopped readers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyroaring import BitMap64

from lazydelta import ReadOptions
from lazydelta.errors import DataFileError
from lazydelta.formats import DeletedRows
from tests.native.support import opened, plain, read, read_chosen, viewed_rows, watched
from tests.unit.scan.read.tables import Rows, field

REPOSITORY = Path(__file__).parents[2]
MANY = 1_100_000
"""Rows; four columns have more values than one thread decodes."""
DESCRIPTORS = Path("/proc/self/fd")


def written(path, seed, rows=3000):
    """Write a file with many small pages; return its rows."""
    chance = np.random.default_rng(seed)
    numbers = chance.integers(0, 10**9, rows)
    table = pa.table(
        {
            "n": numbers,
            "t": pa.array(numbers).cast(pa.string()),
            "few": np.char.add("a text of some length ", (numbers % 50).astype(str)),
            "x": chance.random(rows),
        }
    )
    pq.write_table(table, path, data_page_size=1 << 10, row_group_size=rows // 3)
    return plain(table)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """A file that is large enough for several threads."""
    path = tmp_path_factory.mktemp("large") / "a.parquet"
    numbers = np.arange(MANY)
    strings = np.array([f"text number {n}" for n in range(1000)])[numbers % 1000]
    table = pa.table({"a": numbers, "b": numbers[::-1], "t": strings, "u": np.roll(strings, 7)})
    pq.write_table(
        table, path, data_page_size=1 << 13, row_group_size=300_000, use_dictionary=["u"]
    )
    return path, plain(table)


def test_concurrent_readers_of_files(tmp_path):
    expected = {}
    for at in range(4):
        path = tmp_path / f"{at}.parquet"
        expected[path] = written(path, at)

    def is_right(path):
        found, positions = read(path, views=True, batch_rows=700)
        return plain(found).equals(expected[path]) and positions == list(range(3000))

    paths = [*expected] * 8 + [next(iter(expected))] * 32
    with watched() as taken, ThreadPoolExecutor(8) as pool:
        assert all(pool.map(is_right, paths))
    assert taken == [True] * len(paths)


def test_concurrent_readers_of_one_open_file(tmp_path):
    expected = written(tmp_path / "a.parquet", 5)
    with closing(opened(tmp_path / "a.parquet")) as file, ThreadPoolExecutor(8) as pool:

        def is_right(name):
            every = viewed_rows(file, [name], range(file.metadata.num_row_groups), 500)
            found = pa.Table.from_batches([rows.columns for rows in every])
            return plain(found).equals(expected.select([name]))

        assert all(pool.map(is_right, expected.schema.names * 10))


@pytest.mark.parametrize("batch_rows", [MANY, 130_000])
def test_columns_of_a_large_file_are_decoded_in_parallel(large, batch_rows):
    """Each column has its own file position: a shared one would mix up their pages."""
    path, expected = large
    with watched() as taken:
        found, positions = read(path, views=True, batch_rows=batch_rows)
    assert taken == [True]
    assert plain(found).equals(expected)
    assert positions == list(range(MANY))


@pytest.mark.parametrize("views", [True, False])
def test_selected_rows_of_columns_decoded_in_parallel(large, views):
    path, expected = large
    deleted = np.random.default_rng(5).random(MANY) < 0.1
    kept = DeletedRows(BitMap64(np.flatnonzero(deleted).tolist())).kept
    found = read_chosen(path, kept, views=views, batch_rows=131_072)
    assert plain(found).equals(expected.filter(pa.array(~deleted)))


def test_memory_of_live_batches_is_not_reused(large):
    """Released blocks are reused; those of live batches must not be."""
    path, expected = large
    with closing(opened(path)) as file, ThreadPoolExecutor(3) as pool:

        def every_other(_):
            every = viewed_rows(file, expected.schema.names, [0, 1, 2, 3], 100_000)
            return [rows for at, rows in enumerate(every) if at % 2]

        kept = [rows for found in pool.map(every_other, range(3)) for rows in found]
    assert len(kept) == 15
    for rows in kept:
        found = plain(pa.Table.from_batches([rows.columns]))
        assert found.equals(expected.slice(rows.start, rows.length))


def test_cached_memory_is_bounded(large):
    if not DESCRIPTORS.is_dir():
        pytest.skip("this system does not tell a process's memory; Linux runs it")
    code = f"""
from pathlib import Path
from tests.native.support import opened, viewed_rows

def resident():
    line = next(l for l in Path("/proc/self/status").read_text().splitlines() if "VmRSS" in l)
    return int(line.split()[1]) // 1024

file = opened(Path({str(large[0])!r}))
next(viewed_rows(file, file.schema.names, [3], 1000))
before = resident()
for _ in range(3):
    held = list(viewed_rows(file, file.schema.names, [0, 1, 2, 3], 300_000))
held = None
print(resident() - before)
"""
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'src'}"}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    # 32 MB may be cached, and the allocator keeps about 40 more. All batches together are 120 MB.
    assert int(done.stdout) < 110


def test_reads_after_a_fork(large):
    """The parent has used several threads, which do not exist in the child."""
    code = f"""
import os
from pathlib import Path
from tests.native.support import plain, read
path = Path({str(large[0])!r})
expected = plain(read(path, views=True)[0])
child = os.fork()
if child == 0:
    found = plain(read(path, views=True, batch_rows=100_000)[0])
    os._exit(0 if found.equals(expected) else 1)
assert os.waitpid(child, 0)[1] == 0
assert plain(read(path, views=True)[0]).equals(expected)
"""
    environment = os.environ | {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'src'}"}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True, timeout=120)


def test_reads_without_new_threads(large):
    """No thread can get such a stack, so the calling thread decodes."""
    code = f"""
from pathlib import Path
from tests.native.support import read
print(read(Path({str(large[0])!r}), views=True)[0].num_rows)
"""
    environment = os.environ | {
        "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'src'}",
        "RUST_MIN_STACK": str(1 << 46),
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True
    )
    assert int(done.stdout) == MANY


def descriptors():
    if not DESCRIPTORS.is_dir():
        pytest.skip("this system does not list a process's open files; Linux runs it")
    return len(list(DESCRIPTORS.iterdir()))


def test_a_stopped_reader_leaves_no_open_file(tmp_path):
    expected = written(tmp_path / "a.parquet", 6)
    before = descriptors()
    kept = []
    for _ in range(20):
        with closing(opened(tmp_path / "a.parquet")) as file:
            groups = range(file.metadata.num_row_groups)
            every = viewed_rows(file, expected.schema.names, groups, 100)
            kept.append(next(every).columns)
            every.close()
    gc.collect()
    assert descriptors() == before
    for batch in kept:  # returned batches stay valid
        assert plain(pa.Table.from_batches([batch])).equals(expected.slice(0, 100))


def test_batches_outlive_their_file(tmp_path):
    expected = written(tmp_path / "a.parquet", 7)
    found, _ = read(tmp_path / "a.parquet", views=True, batch_rows=100)
    (tmp_path / "a.parquet").write_bytes(b"")
    (tmp_path / "a.parquet").unlink()
    gc.collect()
    assert plain(found).equals(expected)


def test_a_stopped_scan_leaves_no_open_file(tmp_path):
    made = Rows(tmp_path / "t", [field("n", "long"), field("t", "string")])
    for at in range(6):
        numbers = np.arange(at * 1000, (at + 1) * 1000)
        made.file(f"{at}.parquet", pa.table({"n": numbers, "t": numbers.astype(str)}))
    scan = made.open().scan()
    before = descriptors()
    options = ReadOptions(schema_force_view_types=True, batch_rows=50, memory_limit=0)
    with watched() as taken, scan.to_batches(options) as batches:
        first = next(batches)
    assert all(taken)
    assert taken
    assert first["t"].type == pa.string_view()
    assert first["t"].cast(pa.int64()).equals(first["n"])
    gc.collect()
    assert descriptors() == before


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda path: path.unlink(), id="removed"),
        pytest.param(lambda path: replaced(path, pa.table({"n": [1]})), id="fewer-columns"),
        pytest.param(lambda path: replaced(path, b"no Parquet"), id="something-else"),
        pytest.param(lambda path: replaced(path, b""), id="empty"),
    ],
)
def test_a_file_that_changes_after_it_was_opened(tmp_path, change):
    """The decoder opens the file again: it returns the rows of the original file, or fails."""
    path = tmp_path / "a.parquet"
    expected = written(path, 8)
    with closing(opened(path)) as file:
        change(path)
        groups = range(file.metadata.num_row_groups)
        try:
            every = list(viewed_rows(file, expected.schema.names, groups, 1000))
        except DataFileError as error:
            assert "a.parquet" in str(error)
            return
    found = pa.Table.from_batches([rows.columns for rows in every])
    assert plain(found).equals(expected)


def replaced(path, content):
    """Replace a file; the original stays readable through open handles."""
    other = path.with_suffix(".other")
    if isinstance(content, bytes):
        other.write_bytes(content)
    else:
        pq.write_table(content, other)
    other.replace(path)
