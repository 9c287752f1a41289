"""A scan does not import pandas, which several pyarrow functions import."""

from __future__ import annotations

import importlib.util
import subprocess
import sys

import pytest

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
