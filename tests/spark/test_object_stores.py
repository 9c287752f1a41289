"""Tables on object stores: executors open them themselves, and no plan or error shows a secret."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from lazydelta import Config, Table
from lazydelta import write as write_here
from lazydelta.errors import ConfigError
from lazydelta.spark import (
    changes,
    distributed_log_replay,
    read,
    register,
    restore,
    tuning,
    vacuum,
    write,
)
from lazydelta.spark.serialized_snapshot import TableLocation
from lazydelta.spark.source_options import SourceOptions
from lazydelta.store import list_tree, open_store
from tests.builders import add
from tests.emulators import servers
from tests.unit.changes.support import FeedTable

pytest.importorskip("pyspark")
from pyspark.serializers import CloudPickleSerializer

pytestmark = pytest.mark.emulator

OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"
BY_EXECUTORS = {
    "spark.lazydelta.distributedLogReplay.fileThreshold": "0",
    "spark.lazydelta.distributedLogReplay.numPartitions": "2",
}
IDS = [0, 1, 2, 10, 11, 12, 20, 22, 30, 31, 32]


@pytest.fixture(scope="module")
def s3():
    yield from _running(servers.moto)


@pytest.fixture(scope="module")
def azure():
    yield from _running(servers.azurite)


def _running(start):
    try:
        with start() as emulator:
            yield emulator
    except servers.Unavailable as reason:
        pytest.skip(str(reason))


@pytest.fixture(params=["s3", "azure"])
def emulator(request):
    """Each emulator in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def local(tmp_path):
    """Four files, a checkpoint of two parts, a tail, a deletion vector."""
    made = FeedTable(tmp_path / "t")

    def added(number, **more):
        ids = pa.array(range(number * 10, number * 10 + 3), pa.int64())
        return made.add(f"a b/f{number}.parquet", pa.table({"id": ids}), **more)

    made.commit(added(0), added(1)).log.checkpoint("multipart", parts=2)
    made.commit(added(2, deleted=[1])).commit(added(3))
    return made.directory


def uploaded(emulator, directory):
    url = f"{emulator.url}/{uuid.uuid4().hex}/a table"
    servers.upload_table(url, emulator.options, directory)
    return url


@contextmanager
def executors_know(spark, options, file):
    """Write the storage options file of the executors, and let executors replay the log."""
    file.write_text(json.dumps(options))
    changed = BY_EXECUTORS | {OPTIONS_FILE: str(file)}
    for name, value in changed.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name in changed:
            spark.conf.unset(name)


@pytest.fixture
def pickled(monkeypatch):
    """All that is pickled for other processes while a test runs."""
    sent = []
    dumps = CloudPickleSerializer.dumps

    def recorded(self, obj):
        sent.append(dumps(self, obj))
        return sent[-1]

    monkeypatch.setattr(CloudPickleSerializer, "dumps", recorded)
    return sent


def shown(frame, capsys):
    """Return every representation of a plan that Spark prints."""
    capsys.readouterr()
    frame.explain("extended")
    frame.explain("formatted")
    return capsys.readouterr().out


def frames(spark, url, options):
    """Return the table's files, its rows, and its rows through the data source."""
    register(spark)
    snapshot = Table.open(url, options).snapshot()
    return {
        "replay": distributed_log_replay(spark, snapshot, fields=["path"]),
        "read": read(spark, url),
        "source": spark.read.format("lazydelta").load(url),
    }


@pytest.mark.spark4
@pytest.mark.sample(2)
def test_executors_take_storage_options_from_a_file(
    spark, emulator, local, tmp_path, pickled, capsys
):
    url, file = uploaded(emulator, local), tmp_path / "options.json"
    with executors_know(spark, emulator.options, file):
        found = frames(spark, url, emulator.options)
        plans = "".join(shown(frame, capsys) for frame in found.values())
        paths = [row.path for row in found["replay"].collect()]
        ids = [sorted(row.id for row in found[name].collect()) for name in ("read", "source")]
    assert sorted(paths) == [f"a b/f{number}.parquet" for number in range(4)]
    assert ids == [IDS, IDS]
    assert "read_checkpoint" in plans, "or else the plans were not shown"
    sent = b"".join(pickled)
    assert str(file).encode() in sent, "or else not all that is sent was seen"
    for secret in emulator.secrets:
        assert secret not in plans
        assert secret.encode() not in sent


@pytest.mark.sample(2)
def test_errors_of_executors_have_no_secrets(spark, emulator, local, tmp_path):
    (local / "a b" / "f1.parquet").unlink()
    url = uploaded(emulator, local)
    with executors_know(spark, emulator.options, tmp_path / "options.json"):
        found = frames(spark, url, emulator.options)
        for name in ("read", "source"):
            with pytest.raises(Exception, match=r"DataFileNotFoundError: .*f1\.parquet") as caught:
                found[name].collect()
            assert not any(secret in str(caught.value) for secret in emulator.secrets)


def test_credentials_that_are_refused_are_not_shown(spark, azure, local, tmp_path):
    key = "c2VjcmV0" * 10 + "c2VjcmU="
    wrong = azure.options | {"account_key": key}
    snapshot = Table.open(uploaded(azure, local), azure.options).snapshot()
    with (
        executors_know(spark, wrong, tmp_path / "options.json"),
        pytest.raises(Exception, match="StoreAccessError") as caught,
    ):
        distributed_log_replay(spark, snapshot, fields=["path"]).collect()
    assert key not in str(caught.value)


def s3_keys():
    """Return the keys of the emulator; executors import this function."""
    return {"access_key_id": servers._S3_ID, "secret_access_key": servers._S3_SECRET}


def test_executors_call_a_credential_of_a_module(spark, s3, tmp_path, pickled):
    url = f"{s3.url}/{uuid.uuid4().hex}/t"
    addresses = {name: value for name, value in s3.options.items() if "KEY" not in name}
    feed = {"delta.enableChangeDataFeed": "true"}
    with executors_know(spark, addresses, tmp_path / "options.json"):
        write(spark.range(3), url, properties=feed, credential=s3_keys)
        write(spark.range(3, 5), url, credential=s3_keys)
        rows = read(spark, url, credential=s3_keys).collect()
        changed = changes(spark, url, starting_version=1, credential=s3_keys).collect()
    assert sorted(row.id for row in rows) == [0, 1, 2, 3, 4]
    assert sorted((row.id, row._change_type) for row in changed) == [(3, "insert"), (4, "insert")]
    sent = b"".join(pickled)
    assert b"s3_keys" in sent, "or else not all that is sent was seen"
    assert not any(secret.encode() in sent for secret in s3.secrets)


@pytest.mark.spark4
@pytest.mark.long
def test_a_format_names_a_credential_of_a_module(spark, s3, tmp_path, pickled):
    url = f"{s3.url}/{uuid.uuid4().hex}/t"
    addresses = {name: value for name, value in s3.options.items() if "KEY" not in name}
    named = {"credential": f"{__name__}.s3_keys"}
    with executors_know(spark, addresses, tmp_path / "options.json"):
        register(spark)
        spark.range(3).write.format("lazydelta").options(**named).mode("append").save(url)
        rows = spark.read.format("lazydelta").options(**named).load(url).collect()
        stream = spark.readStream.format("lazydelta").options(**named).load(url)
        query = (
            stream.writeStream.format("memory")
            .queryName("streamed")
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(120)
        streamed = spark.table("streamed").collect()
    assert sorted(row.id for row in rows) == sorted(row.id for row in streamed) == [0, 1, 2]
    sent = b"".join(pickled)
    assert not any(secret.encode() in sent for secret in s3.secrets)


def ids_of(table, version=None):
    return sorted(table.snapshot(version).to_arrow().column("id").to_pylist())


def data_files(store):
    """Return the objects of a table outside of its log."""
    paths = [path for batch in list_tree(store) for path in batch.column("path").to_pylist()]
    return {path for path in paths if not path.startswith("_delta_log/")}


@pytest.mark.long  # it writes and searches a table on each emulator
def test_executors_restore_and_vacuum(spark, emulator, tmp_path, pickled, monkeypatch):
    url = f"{emulator.url}/{uuid.uuid4().hex}/a table"
    for start in (0, 6, 12):
        rows = {"id": [*range(start, start + 6)], "p": ["a b", "c%d", None] * 2}
        write_here(url, rows, partition_by=["p"], storage_options=emulator.options)
    table, store = Table.open(url, emulator.options), open_store(url, emulator.options)
    table.delete("id < 9")
    store.write("p=a b/orphan.parquet", b"orphan", overwrite=False)
    for name in ("COMMITS_IN_ONE_TASK", "DELETED_IN_ONE_TASK", "FILES_LOOKED_UP"):
        monkeypatch.setattr(tuning, name, 2)
    with executors_know(spark, emulator.options, tmp_path / "options.json"):
        restored = restore(spark, url, 1)
        planned = vacuum(spark, url, 0, "full", force=True)
        before = data_files(store)
        done = vacuum(spark, url, 0, "full", force=True, dry_run=False)
    assert restored.metrics["numRestoredFiles"] == 6
    assert ids_of(table) == ids_of(table, 1) == [*range(12)]
    # Three files of version 2, three that the DELETE wrote, and the orphan.
    assert planned.files_to_delete == done.files_deleted == 7
    assert not done.files_failed
    left = data_files(store)
    assert before - left == {*planned.paths}
    assert len(left) == 6
    assert not any(secret.encode() in b"".join(pickled) for secret in emulator.secrets)


@pytest.mark.parametrize("name", ["no_such_module.keys", "json", "json.nothing", "lambda: 1"])
def test_a_credential_that_cannot_be_imported_is_refused(name):
    with pytest.raises(ConfigError, match="credential"):
        SourceOptions.parse({"path": "s3://lake/t", "credential": name})


@pytest.fixture
def clone(s3, tmp_path):
    """A table with a file in another bucket, and the root of that."""
    bucket = f"b{uuid.uuid4().hex}"
    servers.create_bucket(s3.endpoint, bucket)
    root = f"s3://{bucket}/origin"
    source, made = FeedTable(tmp_path / "origin"), FeedTable(tmp_path / "t")
    source.commit(source.add("f.parquet", pa.table({"id": pa.array([7], pa.int64())})))
    servers.upload_table(root, s3.options, source.directory)
    size = (source.directory / "f.parquet").stat().st_size
    made.commit(add(f"{root}/f.parquet", size=size, partition_values={}))
    return uploaded(s3, made.directory), root


def test_executors_take_the_options_of_other_roots_from_the_file(
    spark, s3, clone, tmp_path, pickled
):
    url, root = clone
    config = Config(allowed_roots={root: s3.options})
    options = s3.options | {"allowed_roots": {root: s3.options}}
    with executors_know(spark, options, tmp_path / "options.json"):
        rows = read(spark, url, config=config).collect()
    with pytest.raises(ConfigError, match=r"allowed_roots.*storageOptionsFile"):
        TableLocation.of(open_store(url, s3.options), config, None)
    assert [row.id for row in rows] == [7]
    assert not any(secret.encode() in b"".join(pickled) for secret in s3.secrets)


@pytest.mark.parametrize("roots", [[], {"s3://x": "y"}, {"s3://x": {"a": 1}}])
def test_a_file_with_invalid_options_of_other_roots_is_refused(tmp_path, roots):
    file = tmp_path / "options.json"
    file.write_text(json.dumps({"allowed_roots": roots}))
    location = TableLocation(root="s3://lake/t", config=Config(), options_file=str(file))
    with pytest.raises(ConfigError, match="object with one for each root"):
        location.open()


def test_a_credential_that_would_take_its_secrets_along_is_refused(spark):
    of_main = type(s3_keys)(s3_keys.__code__, s3_keys.__globals__, "keys")
    of_main.__module__ = "__main__"
    for credential in (lambda: {"token": "secret"}, of_main):
        for call in (read, changes):
            with pytest.raises(ConfigError, match="credential"):
                call(spark, "s3://lake/t", credential=credential)


_CLIENT = """
import json, sys
from lazydelta.spark import local_session
from tests.spark.test_object_stores import BY_EXECUTORS, frames

spark = local_session(cores=2, conf=BY_EXECUTORS)
found = frames(spark, sys.argv[1], None)
rows = {name: [row[0] for row in frame.collect()] for name, frame in found.items()}
for frame in found.values():
    frame.explain("extended")
print("FOUND " + json.dumps(rows), flush=True)
spark.stop()
"""


@pytest.mark.long
def test_executors_take_credentials_from_their_environment(s3, local):
    known = {
        name if name.startswith("AWS_") else f"AWS_{name.upper()}": value
        for name, value in s3.options.items()
    }
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", _CLIENT, uploaded(s3, local)],
        capture_output=True, text=True, check=False,
        cwd=Path(__file__).parents[2], env=os.environ | known,
    )  # fmt: skip
    reports = [line for line in done.stdout.splitlines() if line.startswith("FOUND ")]
    assert reports, done.stdout + done.stderr
    found = json.loads(reports[0].removeprefix("FOUND "))
    assert len(found["replay"]) == 4
    assert sorted(found["read"]) == sorted(found["source"]) == IDS
    assert "read_checkpoint" in done.stdout, "or else the plans were not shown"
    for secret in s3.secrets:
        assert secret not in done.stdout + done.stderr
