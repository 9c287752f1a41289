"""Executors without this package, or with another version: one error that says what to do."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark import cloudpickle
from pyspark.errors import PythonException

import lazydelta.spark as lds
from lazydelta.errors import ExecutorPackageError
from lazydelta.spark import package_shipping
from lazydelta.spark.package_shipping import packed
from lazydelta.spark.source import source_named
from lazydelta.spark.spark_errors import raises_spark_errors


def run_elsewhere(tmp_path, prelude, value=(1, 2), *, pack=packed):
    """Unpickle and call a packed value in a process that does not have this package."""
    (tmp_path / "task").write_bytes(cloudpickle.dumps(pack(value)))
    code = f"""
        import pickle, sys
        {prelude}
        try:
            with open({str(tmp_path / "task")!r}, "rb") as file:
                task = pickle.load(file)
            print(task())
        except RuntimeError as error:
            print(error)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_missing_package_is_named_with_the_cure(tmp_path):
    found = run_elsewhere(tmp_path, "sys.modules['lazydelta'] = None")
    assert "lazydelta is not installed for" in found
    assert "lazydelta.spark.ship(spark)" in found


@pytest.mark.spark4
def test_the_format_of_a_stream_says_so_too(tmp_path):
    options = {"path": str(tmp_path)}  # Spark unpickles the instance where it plans the stream
    missing = "sys.modules['lazydelta'] = None"
    found = run_elsewhere(tmp_path, missing, options, pack=source_named())
    assert "lazydelta is not installed for" in found


def test_a_missing_dependency_is_named_and_not_shipped(tmp_path):
    found = run_elsewhere(tmp_path, "sys.modules['pyarrow'] = None", pa.int64())
    assert "pyarrow is not installed for" in found
    assert "pip install 'lazydelta[spark]'" in found
    assert "ship" not in found


@pytest.mark.parametrize(
    "reported",
    [
        "Traceback (most recent call last):\nModuleNotFoundError: No module named 'pyarrow'",
        "[PACKAGE_NOT_INSTALLED] PyArrow >= 18.0.0 must be installed; however, it was not found.",
    ],
)
def test_a_job_without_pyarrow_on_executors_is_a_typed_error(reported):
    @raises_spark_errors
    def job():
        raise PythonException(reported)

    with pytest.raises(ExecutorPackageError, match=r"pyarrow is not installed .* PYSPARK_PYTHON"):
        job()


def test_another_version_is_named(tmp_path):
    prelude = "import types; m = sys.modules['lazydelta'] = types.ModuleType('lazydelta'); m.__version__ = '9'"
    assert "lazydelta 9 on this executor, 0." in run_elsewhere(tmp_path, prelude)


def test_the_package_is_sent_and_checked(spark):
    session = spark.newSession()  # artifacts belong to a session
    lds.ship(session)
    lds.ship(session)


def test_executors_that_start_later_find_the_package(monkeypatch):
    sent = []
    monkeypatch.setattr(package_shipping, "add_package", lambda _, path: sent.append(path))
    monkeypatch.setattr(package_shipping, "_check", lambda _: None)
    lds.ship(None)
    assert Path(sent[0]).exists()


def test_what_executors_lack_is_an_error(spark, monkeypatch):
    monkeypatch.setattr(package_shipping, "_NEEDED", ("not_there",))
    with pytest.raises(ExecutorPackageError, match="not_there is not installed"):
        lds.ship(spark.newSession())
