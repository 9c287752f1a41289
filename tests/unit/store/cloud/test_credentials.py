"""Credential providers: parsing, refresh, threads, pickling, and the request that is signed."""

from __future__ import annotations

import base64
import json
import logging
import pickle
import threading
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from lazydelta import Table
from lazydelta.errors import ConfigError, StoreAccessError
from lazydelta.store import open_store
from lazydelta.store.cloud.credentials import CredentialProvider

NOW = 1_800_000_000.0


class Clock:
    def __init__(self):
        self.now = NOW

    def __call__(self):
        return self.now


def jwt(expires):
    claims = base64.urlsafe_b64encode(json.dumps({"exp": expires}).encode()).decode().rstrip("=")
    return f"e30.{claims}.sig"


def module_credential():
    return {"token": "module-token", "expires_at": None}


@pytest.mark.parametrize(
    ("provider", "returned", "expected"),
    [
        ("azure", "opaque", {"token": "opaque"}),
        ("azure", "Bearer opaque", {"token": "opaque"}),
        ("azure", "?sv=1&sig=x", {"sas_token": "sv=1&sig=x"}),
        ("azure", {"sas_token": "?sv=1&sig=x", "expires_at": None}, {"sas_token": "sv=1&sig=x"}),
        ("azure", {"account_key": "a2V5"}, {"access_key": "a2V5"}),
        ("azure", {"accessToken": "t", "expiresOn": NOW + 99}, {"token": "t"}),
        ("azure", SimpleNamespace(token="t", expires_on=int(NOW + 99)), {"token": "t"}),
        (
            "gcs",
            SimpleNamespace(token="t", expiry=datetime.fromtimestamp(NOW + 9, UTC)),
            {"token": "t"},
        ),
        (
            "s3",
            {
                "AccessKeyId": "i",
                "SecretAccessKey": "s",
                "SessionToken": "t",
                "Expiration": NOW + 9,
            },
            {"access_key_id": "i", "secret_access_key": "s", "token": "t"},
        ),
        (
            "s3",
            {
                "aws_access_key_id": "i",
                "aws_secret_access_key": "s",
                "expiry": "2027-12-01T00:00:00",
            },
            {"access_key_id": "i", "secret_access_key": "s", "token": None},
        ),
        (
            "s3",
            SimpleNamespace(access_key="i", secret_key="s", token="t"),
            {"access_key_id": "i", "secret_access_key": "s", "token": "t"},
        ),
    ],
)
def test_results_of_a_callable(provider, returned, expected):
    found = CredentialProvider(provider, lambda: returned, Clock())()
    expires = found.pop("expires_at")
    assert found == expected
    assert NOW < expires.timestamp() <= NOW + 600


@pytest.mark.parametrize("returned", [None, 5, {}, {"tokn": "hush"}, "", ("hush", 1)])
def test_other_results_are_errors(returned):
    with pytest.raises(StoreAccessError, match="must return access_key_id") as raised:
        CredentialProvider("s3", lambda: returned)()
    assert "hush" not in str(raised.value)


def test_an_expired_or_async_result_is_an_error():
    async def later():
        return "t"

    with pytest.raises(StoreAccessError, match="has expired"):
        CredentialProvider("azure", lambda: jwt(NOW - 1), Clock())()
    with pytest.raises(StoreAccessError, match="async"):
        CredentialProvider("azure", later)()


@pytest.mark.parametrize(("provider", "credential"), [("azure", "a-token"), ("azure", {})])
def test_other_credentials_are_errors(provider, credential):
    with pytest.raises(ConfigError, match="must be a callable") as raised:
        CredentialProvider(provider, credential)
    assert "a-token" not in str(raised.value)


def test_refresh_before_expiry():
    clock, calls = Clock(), []

    def credential():
        calls.append(clock.now)
        return jwt(clock.now + 3600)

    provider = CredentialProvider("azure", credential, clock)
    first = provider()
    clock.now = NOW + 3299
    assert provider()["token"] == first["token"]
    clock.now = NOW + 3301
    assert provider()["token"] != first["token"]
    assert calls == [NOW, NOW + 3301]


def test_a_token_without_expiry_is_fetched_again_after_five_minutes():
    clock, tokens = Clock(), iter("abc")
    provider = CredentialProvider("azure", lambda: next(tokens), clock)
    assert provider()["token"] == "a"
    clock.now += 299
    assert provider()["token"] == "a"
    clock.now += 2
    assert provider()["token"] == "b"


def test_a_failed_refresh_keeps_the_old_credential_until_it_expires(caplog):
    clock, calls = Clock(), []

    def credential():
        calls.append(1)
        if len(calls) > 1:
            raise RuntimeError("cannot replace the-old-token now")
        return {"token": "the-old-token", "expires_on": NOW + 1000}

    provider = CredentialProvider("azure", credential, clock)
    provider()
    clock.now = NOW + 800
    with caplog.at_level(logging.DEBUG):
        assert provider()["token"] == "the-old-token"
        assert provider()["token"] == "the-old-token"
    assert len(calls) == 2, "the next refresh waits"
    assert "keeping the old credential" in caplog.text
    assert "the-old-token" not in caplog.text
    clock.now = NOW + 820
    provider()
    assert len(calls) == 3
    clock.now = NOW + 1001
    with pytest.raises(StoreAccessError, match="RuntimeError") as raised:
        provider()
    assert "the-old-token" not in str(raised.value)


def test_one_refresh_at_a_time():
    running, most, calls = 0, 0, 0
    started = threading.Event()

    def credential():
        nonlocal running, most, calls
        running, calls = running + 1, calls + 1
        most = max(most, running)
        started.wait(0.05)
        running -= 1
        return {"token": "t", "expires_at": None}

    provider = CredentialProvider("gcs", credential)
    threads = [threading.Thread(target=provider) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (most, calls) == (1, 1)


def test_a_token_credential_gets_the_storage_scope(http_server):
    scopes = []

    class TokenCredential:
        def get_token(self, *requested, **_):
            scopes.extend(requested)
            return SimpleNamespace(token="aad-token", expires_on=NOW + 9999)

    http_server.responses = [(200, b"hello")]
    options = {"account_name": "a", "endpoint": http_server.url, "allow_http": "true"}
    store = open_store("az://lake/t", options, credential=TokenCredential())
    assert bytes(store.read("x")) == b"hello"
    assert scopes == ["https://storage.azure.com/.default"]
    assert http_server.requests[0][2]["authorization"] == "Bearer aad-token"


def test_a_credential_wins_over_options_and_environment(http_server, monkeypatch):
    monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
    http_server.responses = [(200, b"hello")]
    options = {
        "account_name": "a",
        "account_key": "a2V5",
        "endpoint": http_server.url,
        "allow_http": "true",
    }
    open_store("az://lake/t", options, credential=lambda: "own").read("x")
    assert http_server.requests[0][2]["authorization"] == "Bearer own"


@pytest.mark.parametrize(
    ("url", "option", "returned", "expected"),
    [
        ("gs://lake/t", "base_url", "gcs-token", "Bearer gcs-token"),
        (
            "s3://lake/t",
            "endpoint",
            {"access_key_id": "the-id", "secret_access_key": "s", "session_token": "st"},
            "Credential=the-id/",
        ),
    ],
)
def test_credentials_of_other_providers(http_server, url, option, returned, expected):
    http_server.responses = [(200, b"hello")]
    options = {option: http_server.url, "allow_http": "true"}
    open_store(url, options, credential=lambda: returned).read("x")
    assert expected in http_server.requests[0][2]["authorization"]


def test_a_failing_credential_is_an_access_error_without_a_request(http_server):
    def credential():
        raise RuntimeError("run az login")

    options = {"account_name": "a", "endpoint": http_server.url, "allow_http": "true"}
    store = open_store("az://lake/t", options, credential=credential)
    with pytest.raises(StoreAccessError, match="run az login"):
        store.read("x")
    assert not http_server.requests


def test_only_functions_of_modules_are_pickled():
    options = {"account_name": "a"}
    store = open_store("az://lake/t", options, credential=module_credential)
    again = pickle.loads(pickle.dumps(store))
    assert again.credential is module_credential
    for credential in (lambda: "t", SimpleNamespace(get_token=str)):
        store = open_store("az://lake/t", options, credential=credential)
        with pytest.raises(ConfigError, match="another process"):
            pickle.dumps(store)


def test_a_local_table_has_no_credential(tmp_path):
    with pytest.raises(ConfigError, match="only for tables on Azure"):
        Table.open(tmp_path, credential=module_credential)
    with pytest.raises(ConfigError, match="only for tables on Azure"):
        Table.create(tmp_path, "id bigint", credential=module_credential)
