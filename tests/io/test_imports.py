"""What scans and commands do not import: it would be most of the time of a short command."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

import lazydelta
from tests.builders import TableBuilder

_SCAN = """
import sys
import lazydelta as ld
for where in (None, "id > 5"):
    list(ld.Table.open(sys.argv[1]).scan(where=where).file_batches())
print("pandas" in sys.modules)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("pandas") is None,
    reason="pandas is not installed; requirements/test.txt has it",
)
def test_a_scan_does_not_import_pandas(tmp_path):
    table = TableBuilder(tmp_path / "t")
    table.commit("+a +b +c")
    table.checkpoint()
    table.commit("-a +d#dv1")
    done = subprocess.run(
        [sys.executable, "-c", _SCAN, str(tmp_path / "t")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "False"


_RUN = """
import json, sys
before = set(sys.modules)
from lazydelta.__main__ import main
try:
    main()
finally:
    sys.stderr.write(json.dumps(sorted(set(sys.modules) - before)))
"""
_PREDICATES = {"lazydelta.expressions.nodes.predicates", "lazydelta.expressions.parser"}
_CHECKPOINTS = {
    *("pyarrow.parquet", "pyarrow.fs", "ssl", "hashlib"),
    *("lazydelta.log.checkpoints.leaf_reader", "lazydelta.parquet.footer.thrift"),
}
_ROWS = {"lazydelta.scan.read.reading", "lazydelta.parquet.reader", "lazydelta_decoder"}
_OTHERS = {
    *("pyarrow.csv", "rich", "pandas", "obstore", "numpy.typing", "pathlib", "shutil", "tempfile"),
    *("lazydelta.scan.plan.log_splits", "lazydelta.scan.pinning", "lazydelta.scan.verify"),
    *("lazydelta.protocol.retention", "lazydelta.schema.ddl", "lazydelta.store.cloud.object_store"),
    *("lazydelta.transaction", "lazydelta.writer", "lazydelta.operations.write"),
    *("lazydelta.errors.writes", "lazydelta.metrics.events"),
}


def loaded_by_command(*arguments):
    done = subprocess.run(
        [sys.executable, "-c", _RUN, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr))


@pytest.mark.parametrize("command", [("count",), ("files", "--limit", "10")])
def test_a_short_command_loads_only_what_it_needs(tmp_path, command):
    lazydelta.write(tmp_path, {"id": [1, 2]})
    loaded = loaded_by_command(*command, tmp_path)
    assert "lazydelta.scan.plan.run" in loaded, "nothing was seen to be loaded: the test is blind"
    assert not loaded & (_PREDICATES | _CHECKPOINTS | _ROWS | _OTHERS)


def test_commands_load_what_they_need(tmp_path):
    """The lists above name modules that exist."""
    lazydelta.write(tmp_path, {"id": [1, 9]})
    lazydelta.Table.open(tmp_path).checkpoint()
    loaded = loaded_by_command("count", tmp_path, "--where", "id > 5")
    assert loaded > {name for name in _PREDICATES | _CHECKPOINTS if name.startswith("lazydelta.")}
    assert loaded > {name for name in _ROWS if name.startswith("lazydelta.")}
