"""`check_store`: what an address resolves to, which requests work, and no secret anywhere."""

from __future__ import annotations

import json
import logging
import traceback

import pytest

from lazydelta import Config, Table
from lazydelta.errors import DeltaError, StoreError
from lazydelta.store import MemoryStore, open_store, register_store, schemes
from lazydelta.store.diagnosis import check_store
from lazydelta.store.diagnosis.resolution import resolve

CANARY = "c2VjcmV0LWNhbmFyeQ=="
"""Valid base64, as account keys must be."""


@pytest.mark.parametrize(
    ("url", "options", "environment", "expected"),
    [
        ("az://lake/t", {"account_name": "a", "account_key": CANARY}, {}, ("account key", "options")),
        ("az://lake/t", {"connection_string": f"AccountName=a;AccountKey={CANARY}"}, {}, ("account key", "options")),
        ("az://lake/t", {}, {"AZURE_STORAGE_CONNECTION_STRING": f"AccountName=a;AccountKey={CANARY}"}, ("account key", "environment")),
        ("az://lake/t", {"account_name": "a"}, {"AZURE_STORAGE_KEY": CANARY}, ("account key", "environment")),
        ("az://lake/t", {"account_name": "a"}, {"AZURE_CLIENT_SECRET": CANARY}, ("client secret", "environment")),
        (f"https://a.blob.core.windows.net/lake/t?sv=1&sig={CANARY}", {}, {}, ("SAS token", "url")),
        ("az://lake/t", {"account_name": "a", "bearer_token": CANARY}, {}, ("bearer token", "options")),
        ("az://lake/t", {"account_name": "a", "anon": True}, {}, ("anonymous", "options")),
        ("az://lake/t", {"account_name": "a"}, {}, ("managed identity", "default")),
        ("s3://lake/t", {"key": "id", "secret": CANARY}, {}, ("access key", "options")),
        ("s3://lake/t", {}, {"AWS_ACCESS_KEY_ID": "i"}, ("access key", "environment")),
        ("s3://lake/t", {}, {"AWS_PROFILE": "work"}, ("AWS profile work", "environment")),
        ("s3://lake/t", {}, {}, ("instance metadata", "default")),
        ("gs://lake/t", {"access_token": CANARY}, {}, ("bearer token", "options")),
        ("gs://lake/t", {"token": "/key.json"}, {}, ("service account file", "options")),
    ],
)  # fmt: skip
def test_kind_and_source_of_the_credential(monkeypatch, url, options, environment, expected):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = resolve(url, options)
    source = expected[1].replace("options", "storage_options")
    assert (found.credential, found.credential_source) == (expected[0], source)
    assert CANARY not in repr(found)


@pytest.mark.parametrize(
    ("url", "options", "endpoint"),
    [
        ("abfss://c@a.dfs.core.windows.net/t", {}, "https://a.blob.core.windows.net"),
        ("abfss://w@onelake.dfs.fabric.microsoft.com/l/Tables/t", {}, "https://onelake.blob.fabric.microsoft.com"),
        ("az://c/t", {"use_emulator": "true"}, "http://127.0.0.1:10000"),
        ("s3://b/t", {"region": "eu-west-1"}, "https://s3.eu-west-1.amazonaws.com"),
        ("s3://b/t", {"endpoint_url": "https://minio:9000"}, "https://minio:9000"),
        ("https://0a.r2.cloudflarestorage.com/b/t", {}, "https://0a.r2.cloudflarestorage.com"),
        ("gs://b/t", {}, "https://storage.googleapis.com"),
    ],
)  # fmt: skip
def test_endpoints(url, options, endpoint):
    assert resolve(url, options).endpoint == endpoint


def statuses(report):
    return {probe.name: probe.status for probe in report.probes}


def test_a_check_without_write_leaves_no_object(tmp_path):
    Table.open(tmp_path).write({"id": [1]})
    before = sorted(tmp_path.rglob("*"))
    report = check_store(str(tmp_path))
    assert statuses(report) == {
        "list": "ok",
        "latency": "ok",
        "ranges": "ok",
        "conditional put": "skipped",
    }
    assert sorted(tmp_path.rglob("*")) == before


def test_a_check_with_write_cleans_up(tmp_path):
    report = check_store(str(tmp_path), write=True)
    assert report.ok
    assert statuses(report)["conditional put"] == statuses(report)["delete"] == "ok"
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_a_store_that_ignores_the_condition_fails(monkeypatch):
    class Overwriting(MemoryStore):
        def write(self, path, data, *, overwrite):
            del overwrite
            super().write(path, data, overwrite=True)

    monkeypatch.setattr(schemes, "_FACTORIES", dict(schemes._FACTORIES))
    register_store("bad", lambda url, _: Overwriting(root=url))
    report = check_store("bad://lake/t", write=True)
    assert not report.ok
    (failed,) = [probe for probe in report.probes if probe.status == "failed"]
    assert "commits would be lost" in failed.detail


SECRETS = [
    ("az://lake/t", {"account_name": "a", "account_key": CANARY}),
    ("az://lake/t", {"account_name": "a", "sas_token": f"sv=1&sig={CANARY}"}),
    ("az://lake/t", {"account_name": "a", "token": CANARY}),
    ("az://lake/t", {"connection_string": f"AccountName=a;AccountKey={CANARY}"}),
    ("az://lake/t", {"connection_string": f"AccountName=a;SharedAccessSignature=sig={CANARY}"}),
    ("s3://lake/t", {"key": "id", "secret": CANARY, "token": CANARY}),
    ("s3://lake/t", {"access_key": "id", "secret_key": CANARY, "session_token": CANARY}),
    ("gs://lake/t", {"bearer_token": CANARY}),
]


@pytest.mark.parametrize("status", [403, 404, 500])
@pytest.mark.parametrize(("url", "options"), SECRETS)
def test_secrets_are_in_no_output(http_server, caplog, url, options, status):
    caplog.set_level(logging.DEBUG)
    options = dict(options)
    http_server.responses = [(status, b"<Error><Code>Why</Code></Error>")]
    endpoint = "base_url" if url.startswith("gs") else "endpoint"
    options |= {endpoint: http_server.url, "allow_http": "true", "max_retries": "0"}
    _assert_hidden(url, options, caplog)
    assert http_server.requests


@pytest.mark.parametrize("url", ["az://lake/t", "s3://lake/t", "gs://lake/t"])
def test_secrets_of_a_provider_are_in_no_output(http_server, caplog, url):
    caplog.set_level(logging.DEBUG)
    http_server.responses = [(403, b"denied")]
    returned = {"access_key_id": "i", "secret_access_key": CANARY, "token": CANARY}
    endpoint = "base_url" if url.startswith("gs") else "endpoint"
    options = {endpoint: http_server.url, "allow_http": "true", "max_retries": "0"}
    if url.startswith("az"):
        options["account_name"] = "a"
    store = open_store(url, options, credential=lambda: returned)
    with pytest.raises(StoreError) as raised:
        store.read("x")
    shown = [repr(store), repr(store._connect), *traceback.format_exception(raised.value)]
    assert CANARY not in f"{shown} {caplog.text}"
    assert http_server.requests


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("az://lake/t", {"account_key": CANARY}),
        ("az://lake/t", {"account_name": "a", "account_key": f"{CANARY}!"}),
        ("az://lake/t", {"connection_string": CANARY}),
        ("gs://lake/t", {"service_account_key": CANARY}),
        ("s3://lake/t", {"secret_acess_key": CANARY}),
        ("s3://lake/t", {"root_certificate": CANARY}),
    ],
)
def test_secrets_are_in_no_configuration_error(url, options, caplog):
    caplog.set_level(logging.DEBUG)
    with pytest.raises((ValueError, StoreError)) as raised:
        open_store(url, options)
    assert CANARY not in "".join(traceback.format_exception(raised.value)) + caplog.text


def _assert_hidden(url, options, caplog):
    store = open_store(url, options)
    with pytest.raises(StoreError) as raised:
        store.read("x")
    config = Config(retry_attempts=2, retry_base_seconds=0, allowed_roots={url: options})
    table = Table.open(url, options, config)
    with pytest.raises(DeltaError) as raised_by_layers:
        table.to_arrow()
    report = check_store(url, options, write=True)
    shown = [
        repr(config),
        repr(table),
        *traceback.format_exception(raised_by_layers.value),
        repr(store),
        repr(store._connect),
        *traceback.format_exception(raised.value),
        repr(report),
        json.dumps(report.to_dict()),
        caplog.text,
    ]
    assert CANARY not in " ".join(shown)
    assert CANARY.rstrip("=") not in " ".join(shown)
