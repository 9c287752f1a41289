"""OPTIMIZE killed at failpoints: rows stay, and a second run finishes the work."""

from __future__ import annotations

import signal
import subprocess
import sys

import pyarrow as pa
import pytest

import lazydelta as ld
from tests.crash.harness import check_log, environment

_RUN = "import sys, lazydelta as ld; ld.Table.open(sys.argv[1]).{}"
_COMPACT = "optimize(batch_bytes=1)"
_POINTS = ("data-file-written", "commit-prepared", "commit-put")
_REWRITES = ("optimize()", "optimize(full=True, target_size=4000)", "purge()")


def _killed(url, operation, failpoint):
    """Run an operation in a process that is killed at a failpoint."""
    armed = environment() | {"_LAZYDELTA_FAILPOINT": failpoint}
    command = [sys.executable, "-c", _RUN.format(operation), url]
    killed = subprocess.run(command, env=armed, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    check_log(url)


@pytest.mark.parametrize("name", _POINTS)
def test_killed_at(name, tmp_path):
    url = str(tmp_path / "table")
    for start in range(0, 40, 10):
        rows = pa.table({"id": list(range(start, start + 10)), "p": ["a", "b"] * 5})
        properties = {"properties": {"delta.enableDeletionVectors": "true"}}
        ld.write(url, rows, partition_by="p", **({} if start else properties))
    table = ld.Table.open(url)
    table.delete("id = 7")
    _killed(url, _COMPACT, f"{name}:kill:2")  # in the second of two batches
    expected = sorted(set(range(40)) - {7})
    assert sorted(table.to_arrow()["id"].to_pylist()) == expected
    assert table.version >= 5  # the first batch is committed
    table.optimize()
    assert len(list(table.scan().files())) == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == expected


@pytest.mark.sample(4)
@pytest.mark.parametrize("operation", _REWRITES)
@pytest.mark.parametrize("name", _POINTS)
def test_clustering_and_purge_killed_at(name, operation, tmp_path):
    url = str(tmp_path / "table")
    properties = {"delta.enableDeletionVectors": "true", "delta.enableRowTracking": "true"}
    columns = "id bigint, x bigint"
    table = ld.Table.create(url, columns, cluster_by=["x", "id"], properties=properties)
    for start in range(0, 3000, 1000):
        ids = range(start, start + 1000)
        table.write(pa.table({"id": list(ids), "x": [n * 7919 % 1009 for n in ids]}))
    table.delete("id % 10 = 7")
    options = ld.ReadOptions(row_id_column="rid", row_commit_version_column="rcv")
    expected = table.to_arrow(options).sort_by("id")
    _killed(url, operation, f"{name}:kill:1")
    assert table.to_arrow(options).sort_by("id") == expected
    table.optimize(full=True)
    assert table.to_arrow(options).sort_by("id") == expected
    assert {file.clustering_provider for file in table.scan().files()} == {"liquid"}
    assert not any(file.deletion_vector for file in table.scan().files())
    check_log(url)
