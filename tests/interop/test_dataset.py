"""`LazyDataset` behaves like a pyarrow dataset, and reads no unnecessary file."""

from __future__ import annotations

import pickle
import subprocess
import sys
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pytest

from lazydelta import Table
from lazydelta.config import ReadOptions
from lazydelta.errors import ConfigError, UnsupportedOperationError
from lazydelta.interop import to_pyarrow_dataset
from tests.interop.tables import (
    DAY_2,
    ROWS,
    TIME_2,
    Watched,
    canonical,
    deltalake,
    rows_of_file,
    write_table,
    write_table_with_vectors,
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_table(tmp_path_factory.mktemp("dataset") / "table")


@pytest.fixture
def watched(path):
    return Watched(path)


@pytest.fixture
def dataset(watched):
    return to_pyarrow_dataset(watched.table)


FILTERS = [
    pytest.param(pc.field("id") < 250, 2, id="numbers"),
    pytest.param((pc.field("id") == 5) | (pc.field("id") == 1205), 2, id="or"),
    pytest.param(pc.field("part") == "p1", 2, id="partition"),
    pytest.param(pc.field("part").is_null(), 2, id="null-partition"),
    pytest.param(~pc.field("part").isin(["p1", "p2"]), 4, id="not-in-is-true-for-null"),
    pytest.param(pc.field("day") == DAY_2, 1, id="date"),
    pytest.param(pc.field("at") >= TIME_2, 6, id="time"),
    pytest.param(pc.field("nested", "x") == 777, 1, id="nested"),
    pytest.param(pc.field("price") > pa.scalar(15, pa.decimal128(10, 2)), 1, id="decimal"),
    pytest.param((pc.field("id") < 5) & (pc.field("small") * 2 > 4), 1, id="half-translated"),
    pytest.param(pc.field("small") * 2 > 90, 8, id="not-translated"),
    pytest.param(pc.field("Mixed Case") == "name 3", 8, id="mixed-case"),
    pytest.param(pc.field("number") > 1e9, 8, id="floats-may-be-nan"),
    pytest.param(pc.field("number") < -1.0, 0, id="nothing-matches"),
    pytest.param(pc.scalar(True), 8, id="constant"),
]


@pytest.mark.parametrize(("expression", "files"), FILTERS)
def test_a_filter_is_exact_and_opens_few_files(watched, dataset, expression, files):
    whole = watched.table.scan().to_arrow()
    watched.opened()
    found = dataset.to_table(filter=expression)
    assert watched.opened() <= files
    assert canonical(found) == canonical(whole.filter(expression))
    report = dataset.explain()["files"]
    assert report["scanned"] + report["pruned"] == 8


def test_columns_are_pushed_down(dataset):
    found = dataset.to_table(columns=["Mixed Case", "id"], filter=pc.field("small") == 3)
    assert found.schema.names == ["Mixed Case", "id"]
    assert dataset._latest.columns == ("id", "Mixed Case", "small")


def test_an_empty_projection_keeps_the_row_count(dataset):
    assert dataset.to_table(columns=[]).num_rows == 8 * ROWS
    assert dataset.to_table(columns=[], filter=pc.field("id") < 7).num_rows == 7
    assert dataset.to_table(columns=[], filter=pc.field("id") < 7).num_columns == 0


def test_columns_can_be_expressions_and_repeat(dataset):
    where = pc.field("id") < 3
    found = dataset.to_table(columns={"twice": pc.field("id") * 2}, filter=where)
    assert sorted(found["twice"].to_pylist()) == [0, 2, 4]
    assert dataset._latest.columns == ("id",)
    found = dataset.to_table(columns=["id", "id"], filter=where)
    assert found.column_names == ["id", "id"]


def test_counts_come_from_the_log(watched, dataset):
    assert dataset.count_rows() == 8 * ROWS
    assert watched.opened() == 0
    assert dataset.count_rows(filter=pc.field("id") < 250) == 250
    assert dataset.filter(pc.field("id") < 250).count_rows() == 250


def test_head_stops_early(path):
    watched = Watched(path)
    dataset = to_pyarrow_dataset(watched.table, ReadOptions(files_at_once=1, memory_limit=0))
    assert dataset.head(5).num_rows == 5
    assert watched.opened() <= 3
    assert dataset.head(0).num_rows == 0


def test_fragments_together_return_every_row_once(dataset):
    fragments = list(dataset.get_fragments(filter=pc.field("id") < 900))
    assert len(fragments) >= 2
    for _ in range(2):  # a second round is a new read
        found = [batch for fragment in fragments for batch in fragment.to_batches(columns=["id"])]
        ids = [value for batch in found for value in batch.column("id").to_pylist()]
        assert sorted(ids) == list(range(900))


def test_a_fragment_closed_early_leaves_the_rest_to_the_others(path):
    dataset = to_pyarrow_dataset(Table.open(path))
    first, *others = dataset.get_fragments()
    start = first.to_batches(columns=["id"])
    taken = next(start).column("id").to_pylist()
    start.close()
    for fragment in others:
        for batch in fragment.to_batches(columns=["id"]):
            taken += batch.column("id").to_pylist()
    assert sorted(taken) == list(range(8 * ROWS))


def test_a_scans_own_filter_columns_and_limit_stay_in_force(watched):
    scan = watched.table.scan(where="id < 500", columns=["id", "part"])
    dataset = to_pyarrow_dataset(scan)
    assert dataset.schema.names == ["id", "part"]
    assert dataset.to_table(filter=pc.field("part") == "p1").num_rows == ROWS
    assert dataset.to_table(filter=pc.field("id") >= 490).num_rows == 10
    limited = to_pyarrow_dataset(watched.table.scan(limit=10))
    assert limited.to_table().num_rows == 10
    assert limited.to_table(filter=pc.field("id") >= 0).num_rows == 10
    assert limited.count_rows() == 10


def test_extra_columns_can_be_filtered_and_shown(watched):
    dataset = to_pyarrow_dataset(watched.table, ReadOptions(file_column_name="file"))
    paths = sorted(set(dataset.to_table(columns=["file"])["file"].to_pylist()))
    assert paths == sorted(file.path for file in watched.table.scan().files())
    assert dataset.to_table(filter=pc.field("file") == paths[0]).num_rows == ROWS


def test_deleted_rows_stay_deleted(tmp_path):
    left = write_table_with_vectors(tmp_path / "table")
    dataset = to_pyarrow_dataset(Table.open(tmp_path / "table"))
    assert sorted(dataset.to_table(columns=["id"])["id"].to_pylist()) == left
    assert dataset.count_rows() == len(left)
    found = dataset.to_table(columns=["id"], filter=pc.field("id") < 10)
    assert sorted(found["id"].to_pylist()) == [1, 2, 4, 5, 7, 8]


def test_an_empty_table(tmp_path):
    path = str(tmp_path / "table")
    deltalake.write_deltalake(path, rows_of_file(0).slice(0, 0))
    dataset = to_pyarrow_dataset(Table.open(path))
    assert dataset.to_table().num_rows == 0
    assert dataset.to_table(columns=["id"], filter=pc.field("id") > 3).schema.names == ["id"]
    assert dataset.count_rows() == 0
    assert dataset.head(3).num_rows == 0


def test_a_table_is_pinned_to_its_version(tmp_path):
    path = write_table(tmp_path / "table", files=1)
    dataset = to_pyarrow_dataset(Table.open(path))
    deltalake.write_deltalake(path, rows_of_file(1), mode="append", partition_by=["part"])
    assert dataset.to_table().num_rows == ROWS
    assert to_pyarrow_dataset(Table.open(path)).to_table().num_rows == 2 * ROWS
    assert to_pyarrow_dataset(Table.open(path).snapshot(version=0)).count_rows() == ROWS


def test_invalid_arguments_raise_before_a_read(watched, dataset):
    watched.opened()
    with pytest.raises(pa.ArrowInvalid, match="nope"):
        dataset.scanner(filter=pc.field("nope") > 3)
    with pytest.raises((KeyError, pa.ArrowInvalid), match="nope"):
        dataset.scanner(columns=["nope"])
    with pytest.raises(ConfigError, match="str"):
        to_pyarrow_dataset("/a/path")
    assert watched.opened() == 0


def test_every_reading_method_of_the_base_class_is_redefined(dataset):
    """A method of the base class would read the C++ dataset, which refuses."""
    inherited = {
        name
        for name in dir(pds.UnionDataset)
        if not name.startswith("__") and name not in vars(type(dataset))
    }
    harmless = {"children", "partition_expression", "schema"}
    assert inherited == {"_scan_options", "_scanner_options", *harmless}
    with pytest.raises(TypeError, match="pickle"):
        pickle.dumps(dataset)
    with pytest.raises(UnsupportedOperationError, match="ReadOptions"):
        dataset.replace_schema(pa.schema([]))


IN_CPP = {
    "union": "pds.UnionDataset(ds.schema, [ds]).to_table()",
    "scanner": "pds.Scanner.from_dataset(ds).to_table()",
    "scanner-count": "pds.Scanner.from_dataset(ds).count_rows()",
    "acero": "acero.Declaration('scan', acero.ScanNodeOptions(ds)).to_table()",
    "join": "pds.dataset(pa.table({'id': [1]})).join(ds, 'id').to_table()",
    "child": "ds.children[0].to_table()",
}
# It exits without finalizing Python: a thread of pyarrow may still release the file, and then aborts.
_SCAN_IN_CPP = """
import os, sys
import pyarrow as pa, pyarrow.acero as acero, pyarrow.dataset as pds
from lazydelta import Table
from lazydelta.errors import UnsupportedOperationError

ds = Table.open(sys.argv[1]).scan(columns=["id"]).to_pyarrow_dataset()
try:
    eval(sys.argv[2])
except UnsupportedOperationError as error:
    print(error, flush=True)
    os._exit(0)
"""


@pytest.mark.sample(3)
@pytest.mark.parametrize("code", IN_CPP.values(), ids=IN_CPP)
def test_a_scan_in_pyarrows_cpp_engine_raises_and_names_the_cure(path, code):
    done = subprocess.run(  # a segmentation fault must not end pytest
        [sys.executable, "-c", _SCAN_IN_CPP, path, code],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "use dataset.to_table(), or dataset.scanner().to_reader()" in done.stdout
    assert done.stdout.count("\n") == 1


def test_sort_and_join_in_memory(dataset):
    small = dataset.filter(pc.field("id") < 4)
    assert small.sort_by([("id", "descending")]).to_table()["id"].to_pylist() == [3, 2, 1, 0]
    other = pds.dataset(pa.table({"id": [1, 2], "word": ["one", "two"]}))
    narrow = Table.open(dataset.scan.snapshot.store.root).scan(columns=["id"])
    ids = to_pyarrow_dataset(narrow).filter(pc.field("id") < 4)
    joined = ids.join(other, "id", join_type="inner").to_table()
    assert sorted(joined["word"].to_pylist()) == ["one", "two"]
    assert small.take([0]).num_rows == 1


def test_batches_are_no_larger_than_batch_size(dataset):
    sizes = [batch.num_rows for batch in dataset.to_batches(columns=["id"], batch_size=64)]
    assert max(sizes) <= 64
    assert sum(sizes) == 8 * ROWS


def test_a_scanner_streams_through_the_c_interface(dataset):
    scanner = dataset.scanner(
        columns=["id"], filter=pc.field("at") < datetime(2026, 1, 2, tzinfo=UTC)
    )
    assert pa.table(scanner).num_rows == ROWS
    assert scanner.to_reader().read_all().num_rows == ROWS
    assert scanner.projected_schema.names == ["id"]
    assert scanner.dataset_schema == dataset.schema
