"""OPTIMIZE killed at failpoints: rows stay, and a second run finishes the work."""

from __future__ import annotations

import signal
import subprocess
import sys

import pyarrow as pa
import pytest

import lazydelta as ld
from tests.crash.harness import check_log, environment

_RUN = "import sys, lazydelta as ld; ld.Table.open(sys.argv[1]).optimize(batch_bytes=1)"
_POINTS = ("data-file-written", "commit-prepared", "commit-put")


@pytest.mark.parametrize("name", _POINTS)
def test_killed_at(name, tmp_path):
    url = str(tmp_path / "table")
    for start in range(0, 40, 10):
        rows = pa.table({"id": list(range(start, start + 10)), "p": ["a", "b"] * 5})
        properties = {"properties": {"delta.enableDeletionVectors": "true"}}
        ld.write(url, rows, partition_by="p", **({} if start else properties))
    table = ld.Table.open(url)
    table.delete("id = 7")
    armed = {"_LAZYDELTA_FAILPOINT": f"{name}:kill:2"}  # in the second of two batches
    killed = subprocess.run(
        [sys.executable, "-c", _RUN, url], env=environment() | armed, check=False, timeout=120
    )
    assert killed.returncode == -signal.SIGKILL
    check_log(url)
    expected = sorted(set(range(40)) - {7})
    assert sorted(table.to_arrow()["id"].to_pylist()) == expected
    assert table.version >= 5  # the first batch is committed
    table.optimize()
    assert len(list(table.scan().files())) == 2
    assert sorted(table.to_arrow()["id"].to_pylist()) == expected
