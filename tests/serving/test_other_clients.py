"""Clients that know nothing of lazydelta: curl, DuckDB, Polars, and a plain pyarrow reader."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pyarrow as pa
import pytest

from lazydelta import Table
from tests.serving.support import ARROW, running, wait_until


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = str(tmp_path_factory.mktemp("clients") / "trips")
    table = Table.open(path)
    for day in ("2026-05-01", "2026-05-02"):
        table.write({"id": [1, 2, 3], "day": [day] * 3}, partition_by=["day"])
    return path


@pytest.fixture(scope="module")
def server(path):
    with running({"trips": path}) as running_server:
        yield running_server


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl on this machine")
def test_curl_reads_rows_as_lines(server):
    command = ["curl", "-sSN", "--get", f"{server.url}/v1/tables/trips/rows"]
    command += ["--data-urlencode", "where=day = '2026-05-01' and id > 1"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=30)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["id"] for line in lines if "id" in line] == [2, 3]
    assert lines[-1] == {"end": True, "rows": 2, "version": 1}


def open_arrow(server, path):
    return urlopen(Request(f"{server.url}{path}", headers={"Accept": ARROW}), timeout=30)


@pytest.mark.skipif(importlib.util.find_spec("duckdb") is None, reason="duckdb is not installed")
def test_duckdb_queries_the_arrow_stream(server):
    import duckdb

    with open_arrow(server, "/v1/tables/trips/rows") as body:
        trips = pa.ipc.open_stream(body)
        query = "select day, sum(id) from trips group by day order by day"
        assert duckdb.sql(query).fetchall() == [("2026-05-01", 6), ("2026-05-02", 6)]
        del trips


@pytest.mark.skipif(importlib.util.find_spec("polars") is None, reason="polars is not installed")
def test_polars_reads_the_arrow_stream(server):
    import polars as pl

    with open_arrow(server, "/v1/tables/trips/rows?columns=id") as body:
        frame = pl.read_ipc_stream(body.read())
    assert sorted(frame["id"].to_list()) == [1, 1, 2, 2, 3, 3]


def test_the_command_serves_until_sigterm(path, tmp_path):
    command = [sys.executable, "-m", "lazydelta", "serve", "--port", "0", "--flight-port", "0"]
    log = tmp_path / "log"
    with log.open("w") as errors:
        process = subprocess.Popen(
            [*command, "--table", f"trips={path}"],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        try:
            url = process.stdout.readline().split()[-1]
            with urlopen(f"{url}/v1/tables/trips/files", timeout=30) as answer:
                assert answer.read().count(b'"size"') == 2
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        finally:
            process.kill()
            process.stdout.close()
            process.wait()
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    assert [line["outcome"] for line in lines if line["message"] == "request"] == ["complete"]
    assert lines[-1]["message"] == "stopped"


def test_tokens_are_rotated_without_a_restart(path, tmp_path):
    def configured(*tokens):
        digests = [hashlib.sha256(token.encode()).hexdigest() for token in tokens]
        return (
            f'[http]\nport = 0\n[flight]\nenabled = false\n[[principals]]\nname = "p"\n'
            f'token_sha256 = {json.dumps(digests)}\n[[tables]]\nname = "trips"\n'
            f'url = "{path}"\nprincipals = ["p"]\n'
        )

    def statuses():
        found = []
        for token in ("old", "new"):
            asked = Request(f"{url}/v1/tables", headers={"Authorization": f"Bearer {token}"})
            try:
                found.append(urlopen(asked, timeout=30).status)
            except HTTPError as error:
                found.append(error.code)
        return found

    def changed(text):
        config.write_text(text)
        process.send_signal(signal.SIGHUP)

    config, log = tmp_path / "serve.toml", tmp_path / "log"
    config.write_text(configured("old"))
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "lazydelta", "serve", str(config)],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    try:
        url = process.stdout.readline().split()[-1]
        assert statuses() == [200, 401]
        changed(configured("old", "new"))
        assert wait_until(lambda: statuses() == [200, 200])
        changed(configured("new"))
        assert wait_until(lambda: statuses() == [401, 200])
        changed("principals = nonsense")
        assert wait_until(lambda: "not reloaded" in log.read_text())
        assert statuses() == [401, 200]
    finally:
        process.kill()
        process.stdout.close()
        process.wait()


def test_one_server_continues_what_another_process_began(path, server):
    with running({"trips": path}, limits={"batch_files": 1}) as first:
        with urlopen(f"{first.url}/v1/tables/trips/files", timeout=30) as answer:
            lines = [json.loads(answer.readline()) for _ in range(2)]
        assert wait_until(lambda: first.service.admission.running == 0)
    token = lines[1]["resume"]
    with urlopen(f"{server.url}/v1/tables/trips/files?resume={token}", timeout=30) as answer:
        rest = [json.loads(line) for line in answer.read().splitlines()]
    assert len([line for line in rest if "size" in line]) == 1
    assert rest[-1]["end"] is True
