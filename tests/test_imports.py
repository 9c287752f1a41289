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
    *("pyarrow.dataset", "pyarrow.parquet", "lazydelta.interop"),
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


LAZY_DOORS = (
    *("changes", "checkpoint", "errors", "expressions", "expressions.nodes", "formats"),
    *("log.checkpoints", "metrics", "operations", "parquet", "parquet.footer", "protocol", "scan"),
    *("scan.aggregates", "scan.plan", "scan.read", "schema", "store.cloud", "store.layers"),
)


@pytest.mark.parametrize("name", LAZY_DOORS)
def test_a_lazy_door_has_all_that_it_offers(name):
    door = importlib.import_module(f"lazydelta.{name}")
    assert [exported for exported in door.__all__ if not hasattr(door, exported)] == []
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = door.nonsense


def test_every_public_name_exists_once():
    assert len(set(lazydelta.__all__)) == len(lazydelta.__all__)
    assert [name for name in lazydelta.__all__ if not hasattr(lazydelta, name)] == []


_WITHOUT_PANDAS = """
import sys
import lazydelta as ld
table = ld.Table.open(sys.argv[1])
{work}
print("pandas" in sys.modules)
"""


@pytest.mark.skipif(
    importlib.util.find_spec("pandas") is None,
    reason="pandas is not installed; requirements/test.txt has it",
)
@pytest.mark.parametrize(
    "work",
    [
        "for where in (None, 'id > 5'): list(table.scan(where=where).file_batches())",
        "table.vacuum(retention=0, force=True, dry_run=False)",
        "table.vacuum(mode='full')",
        "table.health()",
    ],
)
def test_a_scan_vacuum_and_health_do_not_import_pandas(tmp_path, work):
    table = TableBuilder(tmp_path / "t")
    table.commit("+a +b +c")
    table.checkpoint()
    table.commit("-a +d#dv1")
    table.commit("-b")
    table.commit("-d#dv1")
    script = _WITHOUT_PANDAS.format(work=work)
    assert run_python(script, str(tmp_path / "t")).strip() == "False"


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
