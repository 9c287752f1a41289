"""Spark's own Parquet scan on object stores: where a Hadoop connector opens the table.

Stock Spark has no connector of a cloud, so `ViewFileSystemOverloadScheme` of Hadoop takes the place
of S3A: a bucket is a mount of a local directory. `test_s3a` has the real one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")
from lazydelta.errors import ConfigError, DataFileNotFoundError
from lazydelta.spark import explain_read, hadoop, read, tuning
from tests.emulators import servers
from tests.spark.jars import JarsMissingError, s3a_jars
from tests.unit.changes.support import FeedTable

pytestmark = pytest.mark.emulator

OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"
CONNECTOR = {"fs.s3a.impl": "org.apache.hadoop.fs.viewfs.ViewFileSystemOverloadScheme"}
IDS = [0, 1, 2, 10, 11, 12, 20, 22]


@pytest.fixture(scope="module")
def s3():
    try:
        with servers.moto() as emulator:
            yield emulator
    except servers.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture
def bucket(s3, tmp_path):
    """A bucket with a table, and a directory with the same objects; Hadoop caches by bucket."""
    name, directory = f"b{uuid.uuid4().hex}", tmp_path / "bucket"
    made = FeedTable(directory / "a table")

    def added(number, **more):
        ids = pa.array(range(number * 10, number * 10 + 3), pa.int64())
        return made.add(f"a b/f{number}.parquet", pa.table({"id": ids}), **more)

    made.commit(added(0), added(1)).commit(added(2, deleted=[1]))
    servers.create_bucket(s3.endpoint, name)
    servers.upload_table(f"s3://{name}/a table", s3.options, directory / "a table")
    return name, directory


@contextmanager
def settings(spark, changed):
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in changed:
            spark.conf.unset(name)


@pytest.fixture
def session(spark, s3, tmp_path):
    """The session, with the storage options of the executors."""
    file = tmp_path / "options.json"
    file.write_text(json.dumps(s3.options))
    with settings(spark, {OPTIONS_FILE: str(file)}):
        yield spark


def mounted(name, directory):
    return CONNECTOR | {f"fs.viewfs.mounttable.{name}.linkFallback": directory.as_uri()}


def ids(frame):
    return sorted(row.id for row in frame.collect())


def rows_of(spark, url):
    return explain_read(spark, url)["rows"]


def test_spark_reads_a_store_that_its_connector_opens(session, bucket):
    name, directory = bucket
    url = f"s3://{name}/a table"
    with settings(session, mounted(name, directory)):
        plan = rows_of(session, url)
        frame = read(session, url)
        found = ids(frame)
        files = frame.inputFiles()
    assert (plan["path"], plan["native_files"], plan["arrow_files"]) == ("native and arrow", 2, 1)
    assert found == IDS
    assert {file.partition("://")[0] for file in files} == {"s3a"}


def test_a_missing_file_is_a_typed_error(session, bucket):
    name, directory = bucket
    (directory / "a table" / "a b" / "f1.parquet").unlink()
    with (
        settings(session, mounted(name, directory)),
        pytest.raises(DataFileNotFoundError, match=r"'?a b/f1\.parquet"),
    ):
        read(session, f"s3://{name}/a table").collect()


def test_without_a_connector_our_reader_reads(session, bucket):
    url = f"s3://{bucket[0]}/a table"
    plan = rows_of(session, url)
    assert plan["path"] == "arrow"
    assert plan["reason"] == "the Hadoop connector for s3a is not on Spark's class path"
    assert ids(read(session, url)) == IDS
    with pytest.raises(ConfigError, match="connector for s3a"):
        read(session, url, path="native")


def test_a_connector_that_cannot_open_the_table_is_not_used(session, bucket, tmp_path):
    name = bucket[0]
    (tmp_path / "empty").mkdir()
    url = f"s3://{name}/a table"
    with settings(session, mounted(name, tmp_path / "empty")):
        plan = rows_of(session, url)
        assert ids(read(session, url)) == IDS
    assert plan["path"] == "arrow"
    assert plan["reason"].startswith(f"Spark cannot open s3a://{name}/a table: ")


def test_a_connector_that_finds_another_table_is_not_used(session, bucket, tmp_path):
    name, directory = bucket
    other = tmp_path / "other"
    shutil.copytree(directory, other)
    newest = max((other / "a table" / "_delta_log").glob("*.json"))
    newest.write_bytes(newest.read_bytes() + b"\n")
    with settings(session, mounted(name, other)):
        plan = rows_of(session, f"s3://{name}/a table")
    assert plan["path"] == "arrow"
    assert plan["reason"] == f"Spark finds another table at s3a://{name}/a table"


def test_a_connector_that_does_not_answer_is_not_used(session, bucket, monkeypatch):
    stalled = hadoop.start_thread
    monkeypatch.setattr(tuning, "PROBE_SECONDS", 0.01)
    monkeypatch.setattr(
        hadoop, "start_thread", lambda task: stalled(lambda: __import__("time").sleep(1))
    )
    plan = rows_of(session, f"s3://{bucket[0]}/a table")
    assert plan["path"] == "arrow"
    assert plan["reason"].startswith("Spark did not open")


def test_a_store_is_probed_once_and_a_failure_again_later(session, bucket, monkeypatch):
    probes = []
    answers = iter(["Spark cannot open it", None])
    monkeypatch.setattr(hadoop, "_probe", lambda *args: (probes.append(args), next(answers))[1])
    url = f"s3://{bucket[0]}/a table"
    for _ in range(2):
        assert rows_of(session, url)["path"] == "arrow"
    assert len(probes) == 1
    monkeypatch.setattr(tuning, "PROBE_AGAIN_SECONDS", 0.0)
    for _ in range(2):
        assert rows_of(session, url)["native_files"] == 2
    assert len(probes) == 2


_CLIENT = """
import json, sys
from lazydelta.spark import explain_read, hadoop_settings, local_session, read

url, file, jars = sys.argv[1:]
options = json.loads(open(file).read())
spark = local_session(cores=2, conf={"spark.jars": jars, "spark.lazydelta.storageOptionsFile": file})
# Hadoop keeps the connector of a bucket as it was first configured, so this is another bucket.
other = explain_read(spark, url.replace("//lake", "//other"))["rows"]
for name, value in hadoop_settings(url, options).items():
    spark.conf.set(name, value)
frame = read(spark, url)
frame.explain("extended")
found = {
    "other": other,
    "plan": explain_read(spark, url)["rows"],
    "ids": sorted(row.id for row in frame.collect()),
    "files": frame.inputFiles(),
}
print("FOUND " + json.dumps(found), flush=True)
spark.stop()
"""


@pytest.mark.long
def test_s3a(bucket, tmp_path):
    try:
        jars = s3a_jars()
    except JarsMissingError as reason:
        pytest.skip(str(reason))
    try:
        with servers.versitygw() as emulator:
            url, file = f"{emulator.url}/a table", tmp_path / "options.json"
            (emulator.directory.parent / "other").mkdir()
            for place in (url, "s3://other/a table"):
                servers.upload_table(place, emulator.options, bucket[1] / "a table")
            file.write_text(json.dumps(emulator.options))
            done = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", _CLIENT, url, str(file),
                 ",".join(map(str, jars))],
                capture_output=True, text=True, check=False,
                cwd=Path(__file__).parents[2], env=os.environ,
            )  # fmt: skip
    except servers.Unavailable as reason:
        pytest.skip(str(reason))
    reports = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert reports, done.stdout + done.stderr
    found = json.loads(reports[0].removeprefix("FOUND "))
    assert found["other"]["reason"].startswith("Spark cannot open s3a://other/a table: ")
    assert (found["plan"]["native_files"], found["plan"]["arrow_files"]) == (2, 1), found
    assert found["ids"] == IDS
    assert all(path.startswith("s3a://lake/") for path in found["files"])
    for secret in emulator.secrets:
        assert secret not in done.stdout + done.stderr
