"""Engines in a forked child: those that lost their threads raise, the others work."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.interop.tables import ROWS, write_table

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no fork()")

FILES = 3
QUERIES = {
    "arrow": "table.to_arrow().num_rows",
    "dataset": "table.to_pyarrow_dataset().to_table(filter=pc.field('id') >= 0).num_rows",
    "duckdb": "sql('duckdb')",
    "to_polars": "table.to_polars().height",
    "scan_polars": "table.scan_polars().collect().height",
    "datafusion": "sql('datafusion')",
    "register": "registered()",
}
THREADED = ["to_polars", "scan_polars", "datafusion", "register"]
_FORK = """
import os, sys, warnings
import pyarrow.compute as pc
from lazydelta import QueryBuilder, Table
from lazydelta.errors import ForkedProcessError

warnings.simplefilter("ignore")  # Python and Polars warn of forks
table = Table.open(sys.argv[1])

def sql(engine):
    query = QueryBuilder(engine).register("t", table)
    return query.execute("select count(id) n from t").read_all()["n"][0].as_py()

def registered():
    import datafusion
    context = datafusion.SessionContext()
    table.register(context, "t")
    return context.sql("select count(id) n from t").to_arrow_table()["n"][0].as_py()

parent, child = sys.argv[2:]
eval(parent)
if pid := os.fork():
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    eval(parent)  # the parent still can
    os._exit(code)
try:
    print(eval(child), flush=True)
except ForkedProcessError as error:
    print(error, flush=True)
except BaseException as error:
    print(repr(error), flush=True)
    os._exit(3)
os._exit(0)
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    for engine in ("polars", "datafusion", "duckdb"):
        pytest.importorskip(engine, reason=f"pip install 'lazydelta[{engine}]' runs this")
    return write_table(tmp_path_factory.mktemp("forks") / "table", files=FILES)


def forked(path, parent, child):
    done = subprocess.run(
        [sys.executable, "-c", _FORK, path, parent, child],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("name", THREADED)
def test_an_engine_used_by_the_parent_raises_at_once_in_the_child(path, name):
    answer = forked(path, QUERIES[name], QUERIES[name])
    assert "was used before this process was forked" in answer
    assert "multiprocessing.get_context('spawn')" in answer


@pytest.mark.parametrize("name", [name for name in QUERIES if name not in THREADED])
def test_an_engine_that_survives_a_fork_works_in_the_child(path, name):
    assert forked(path, QUERIES[name], QUERIES[name]) == str(FILES * ROWS)


@pytest.mark.parametrize("name", THREADED)
def test_an_engine_that_ran_no_query_before_the_fork_works_in_the_child(path, name):
    plans = "table.to_arrow(), table.scan_polars(), QueryBuilder('datafusion').register('t', table)"
    assert forked(path, plans, QUERIES[name]) == str(FILES * ROWS)
