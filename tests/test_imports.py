"""What `import lazydelta` and a scan load: nothing heavy that they do not need."""

from __future__ import annotations

import importlib
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

import lazydelta
from tests.builders import TableBuilder

PACKAGE = Path(__file__).parent.parent / "src" / "lazydelta"

# pyarrow itself imports cloudpickle where it finds it.
ALLOWED_THIRD_PARTY = {"pyarrow", "numpy", "orjson", "arro3", "cloudpickle"}
NEVER_ON_IMPORT = {
    *("click", "rich", "pandas", "obstore", "polars", "deltalake", "duckdb", "datafusion"),
    *("pyarrow.dataset", "lazydelta.interop"),
    # What writes a table: a reader does not wait for it.
    *(
        "lazydelta.transaction",
        "lazydelta.writer",
        "lazydelta.operations.write",
        "lazydelta.operations.write_operation",
        "lazydelta.checkpoint.checkpoint_writer",
    ),
}

_LIST_MODULES = """
import json, sys
before = set(sys.modules)
import lazydelta
lazydelta.Table, lazydelta.Config, lazydelta.col  # public names are loaded on first use
print(json.dumps({
    "file": lazydelta.__file__,
    "loaded": {
        name: getattr(sys.modules[name], "__file__", None) or ""
        for name in set(sys.modules) - before if sys.modules[name] is not None
    },
}))
"""


def run_python(script, *arguments):
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def loaded_by_import():
    return json.loads(run_python(_LIST_MODULES))


def test_import_is_of_this_working_tree(loaded_by_import):
    assert Path(loaded_by_import["file"]).is_relative_to(PACKAGE)


def test_import_loads_only_the_allowed_third_party_packages(loaded_by_import):
    third_party = {
        name.split(".")[0]
        for name, file in loaded_by_import["loaded"].items()
        if "site-packages" in file and name.split(".")[0] not in sys.stdlib_module_names
    } - {"lazydelta"}
    assert "pyarrow" in third_party, "nothing was seen to be loaded: the test is blind"
    assert third_party <= ALLOWED_THIRD_PARTY


def test_import_does_not_load_what_belongs_to_one_door(loaded_by_import):
    assert not NEVER_ON_IMPORT & loaded_by_import["loaded"].keys()


@pytest.mark.parametrize(
    "name",
    ["aggregates", "changes", "checkpoint", "expressions", "formats", "operations", "parquet"],
)
def test_a_lazy_door_has_all_that_it_offers(name):
    room = "lazydelta.scan." if name == "aggregates" else "lazydelta."
    door = importlib.import_module(f"{room}{name}")
    assert [exported for exported in door.__all__ if not hasattr(door, exported)] == []
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = door.nonsense


def test_every_public_name_exists_once():
    assert len(set(lazydelta.__all__)) == len(lazydelta.__all__)
    assert [name for name in lazydelta.__all__ if not hasattr(lazydelta, name)] == []


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
    assert run_python(_SCAN, str(tmp_path / "t")).strip() == "False"
