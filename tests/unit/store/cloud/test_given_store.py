"""Stores of obstore that the caller passes, and stores that share credentials."""

from __future__ import annotations

import pickle

import obstore.store
import pytest

from lazydelta.config import Config
from lazydelta.errors import ConfigError
from lazydelta.protocol.paths import Location
from lazydelta.scan.read.file_stores import FileStores
from lazydelta.store import open_store
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.store.layers.retrying_store import RetryingStore


@pytest.fixture
def client(http_server):
    http_server.responses = [(200, b"hello")]
    return obstore.store.S3Store(
        "lake",
        prefix="tables",
        config={"access_key_id": "given-id", "secret_access_key": "s", "endpoint": http_server.url},
        client_options={"allow_http": True},
    )


@pytest.mark.parametrize("path", ["tables", "tables/a%20b", "other"])
def test_requests_go_through_the_client(client, http_server, path):
    store = open_store(f"s3://lake/{path}", store=client)
    assert bytes(store.read("x")) == b"hello"
    _, requested, headers = http_server.requests[0]
    assert requested == f"/lake/{path}/x"
    assert "Credential=given-id/" in headers["authorization"]
    assert store.root == f"s3://lake/{path}"


def test_the_profile_of_the_environment_is_not_used(client, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "missing")
    assert bytes(open_store("s3://lake/tables", store=client).read("x")) == b"hello"


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("s3://other/t", "bucket 'lake', not 'other'"),
        ("az://lake/t", "S3Store cannot open"),
        ("gs://lake/t", "S3Store cannot open"),
    ],
)
def test_a_client_of_another_bucket_is_an_error(client, url, reason):
    with pytest.raises(ConfigError, match=reason):
        open_store(url, store=client)


def test_other_arguments_are_errors(client):
    with pytest.raises(ConfigError, match="pass it alone"):
        open_store("s3://lake/t", {"region": "x"}, store=client)
    with pytest.raises(ConfigError, match="pass it alone"):
        open_store("s3://lake/t", credential=lambda: "t", store=client)
    with pytest.raises(ConfigError, match="not dict"):
        open_store("s3://lake/t", store={})


def test_a_client_is_not_pickled(client):
    with pytest.raises(ConfigError, match="another process"):
        pickle.dumps(open_store("s3://lake/t", store=client))


def file_store(own, root, allowed_roots=()):
    config = Config(allowed_roots=allowed_roots, retry_attempts=2, retry_base_seconds=0.01)
    wrapped = MeteredStore(RetryingStore(own, config))
    return FileStores(wrapped, config).store(Location(root, "x"))


class TestAllowedRoots:
    @pytest.fixture
    def own(self, http_server):
        http_server.responses = [(200, b"hello")]
        options = {"endpoint": http_server.url, "allow_http": "true", "max_retries": "0"}
        return open_store(
            "s3://lake/t", {**options, "access_key_id": "own-id", "secret_access_key": "s"}
        )

    def test_the_same_bucket_uses_the_options_of_the_table(self, own, http_server):
        assert bytes(file_store(own, "s3a://lake/other").read("x")) == b"hello"
        _, path, headers = http_server.requests[0]
        assert path == "/lake/other/x"
        assert "Credential=own-id/" in headers["authorization"]

    def test_another_bucket_does_not(self, own):
        found = file_store(own, "s3://other/t")
        assert "own-id" not in str(found.inner.__reduce__())

    def test_options_of_a_root(self, own, http_server):
        options = {
            "endpoint": http_server.url,
            "allow_http": "true",
            "access_key_id": "root-id",
            "secret_access_key": "s",
            "max_retries": "0",
        }
        http_server.responses = [(503, b""), (200, b"hello")]
        found = file_store(own, "s3://other/t", {"s3://other/t": options})
        assert bytes(found.read("x")) == b"hello"
        assert [path for _, path, _ in http_server.requests] == ["/other/t/x"] * 2
        assert "Credential=root-id/" in http_server.requests[0][2]["authorization"]

    def test_options_of_roots_are_not_shown(self):
        config = Config(allowed_roots={"s3://other/t": {"secret_access_key": "hush"}})
        assert "hush" not in repr(config)
        with pytest.raises(ConfigError, match="storage options") as raised:
            Config(allowed_roots={"s3://other/t": "hush"})
        assert "hush" not in str(raised.value)

    @pytest.mark.parametrize(
        ("own", "root", "is_same"),
        [
            ("abfss://a@acct.dfs.core.windows.net/t", "https://acct.blob.core.windows.net/b/t", 1),
            ("abfss://a@acct.dfs.core.windows.net/t", "az://b/t", 1),
            ("abfss://a@acct.dfs.core.windows.net/t", "abfss://a@other.dfs.core.windows.net/t", 0),
            ("gs://a/t", "gs://a/u", 1),
            ("gs://a/t", "gs://b/u", 0),
            ("gs://a/t", "s3://a/t", 0),
        ],
    )
    def test_which_roots_are_the_same_store(self, own, root, is_same):
        store = open_store(own, {"anon": "true"})
        assert (store.sibling(root) is not None) == bool(is_same)
