"""`lazydelta spark write`, in the session of these tests."""

from __future__ import annotations

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lazydelta as ld
from tests.cli.support import run


class Kept:
    """A session that ignores `stop`, so that it outlives the command."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        return getattr(self._session, name)

    def stop(self):
        """Go on."""


@pytest.fixture
def session(spark, monkeypatch):
    def start(*, cores, conf):
        assert cores in (None, 2)
        assert not conf
        return Kept(spark)

    monkeypatch.setattr("lazydelta.spark.local_session", start)


def test_files_are_written(session, tmp_path):
    url = tmp_path / "t"
    pq.write_table(pa.table({"id": [1, 2, 3], "p": ["a", "b", "a"]}), tmp_path / "rows.parquet")
    (tmp_path / "more.csv").write_text("id,p\n4,b\n5,b\n")
    made = ["--partition-by", "p", "--property", "owner=us", "--cores", 2, "--json"]
    result = run("spark", "write", url, tmp_path / "rows.parquet", *made)
    assert result.exit_code == 0, result.stderr
    report = json.loads(result.stdout)
    assert (report["result"]["version"], report["result"]["rows"]) == (0, 3)
    assert list(report["seconds"]) == ["start_spark", "read", "write"]
    assert report["peak_driver_memory"]["python"] > 1 << 20
    how = ["--mode", "overwrite", "--where", "p = 'b'", "--app-id", "x", "--app-version", 1]
    result = run("spark", "write", url, tmp_path / "more.csv", *how)
    assert result.exit_code == 0, result.stderr
    assert "result.version\t1\n" in result.stdout
    assert sorted(ld.Table.open(url).scan().to_arrow().column("id").to_pylist()) == [1, 3, 4, 5]
    assert ld.Table.open(url).snapshot().metadata.configuration == {"owner": "us"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["rows.txt"], "has no known suffix"),
        (["rows.csv", "--merge-schema", "--overwrite-schema"], "exclude each other"),
    ],
)
def test_contradicting_arguments_are_refused(session, tmp_path, arguments, message):
    result = run("spark", "write", tmp_path / "t", *arguments)
    assert result.exit_code != 0
    assert message in result.stderr
    assert not (tmp_path / "t").exists()
