"""Permanent errors of a store are raised at once and name their cause."""

from __future__ import annotations

import os

import pytest
from obstore import exceptions

from lazydelta.errors import (
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)
from lazydelta.store import open_store
from lazydelta.store.cloud.request_errors import to_store_error
from lazydelta.store.layers.retrying_store import RetryingStore
from tests.unit.store.cloud.endpoint import CONFIG, CREATE, LIST, READ, options, replies, reset, xml


@pytest.mark.parametrize(
    ("call", "answer", "error", "cause"),
    [
        (CREATE, (501, xml("NotImplemented")), StoreError, "does not support conditional writes"),
        (READ, (501, b""), StoreError, "does not support this request"),
        (READ, (400, xml("ExpiredToken")), StoreAccessError, "expired.*get a new one"),
        (READ, (401, xml("X", "The token is expired.")), StoreAccessError, "expired"),
        (READ, (403, xml("RequestTimeTooSkewed")), StoreAccessError, "clock"),
        (READ, (403, xml("AccessDenied")), StoreAccessError, "check the credentials"),
        (LIST, (403, xml("AccessDenied")), StoreAccessError, "check the credentials"),
        (
            LIST,
            (404, xml("NoSuchBucket")),
            ObjectNotFoundError,
            "bucket or container does not exist",
        ),
        (LIST, (404, b"<p>no page"), ObjectNotFoundError, "endpoint answers 404"),
        (CREATE, (404, b"<p>no page"), ObjectNotFoundError, "endpoint answers 404"),
    ],
)
def test_a_permanent_error_names_its_cause_at_once(endpoint, store, call, answer, error, cause):
    endpoint.lasting = replies(*answer)
    with pytest.raises(StoreError, match=cause) as raised:
        call(store)
    assert type(raised.value) is error
    assert len(endpoint.requests) == 1


@pytest.mark.parametrize(
    ("body", "cause"),
    [
        (b"", "not a listing"),
        (b"garbage", "not a listing"),
        (b"<html><p>Sign in<br></html>", "not a listing"),
        (b"<html><p>Sign in</p></html>", "empty listing is not one"),  # well-formed
    ],
)
def test_an_answer_that_is_no_listing_is_an_error(endpoint, store, body, cause):
    endpoint.lasting = replies(200, body)
    with pytest.raises(TransientStoreError, match=cause):
        list(store.list_from("d"))


def test_an_empty_listing_is_confirmed_by_a_missing_object(endpoint, store):
    empty = replies(200, b"<ListBucketResult></ListBucketResult>")
    endpoint.lasting = lambda e, c, r: (empty if r[0] == "GET" else replies(404, b""))(e, c, r)
    assert list(store.list_from("d")) == []
    assert [method for method, _, _ in endpoint.requests] == ["GET", "HEAD"]
    assert list(store.list_from("d", after="a")) == []
    assert [method for method, _, _ in endpoint.requests] == ["GET", "HEAD", "GET"]


@pytest.mark.parametrize(
    ("url", "other", "error", "cause"),
    [
        ("{url}", {"allow_http": "false"}, StoreError, "allow_http=true"),
        ("https{tail}", {}, StoreError, "does not speak TLS"),
        ("https://no-such-host.invalid", {}, StoreError, "does not resolve"),
        ("http://127.0.0.1:9", {}, TransientStoreError, "connection was refused"),
    ],
)
def test_an_unreachable_endpoint_names_its_cause(endpoint, url, other, error, cause):
    where = url.format(url=endpoint.url, tail=endpoint.url.removeprefix("http"))
    inner = open_store("s3://lake/t", {**options(endpoint), "endpoint": where, **other})
    with pytest.raises(StoreError, match=cause) as raised:
        RetryingStore(inner, CONFIG).read("a")
    assert type(raised.value) is error
    assert where in str(raised.value), "the endpoint is named"


def test_an_untrusted_certificate_is_named():
    detail = "kind: Connect, source: InvalidData, error: InvalidCertificate(\n    UnknownIssuer,\n)"
    failed = exceptions.GenericError(f"error sending request\n\nDebug source:\n{detail}")
    error = to_store_error(exceptions, failed, "s3://lake/t/a", operation="read")
    assert type(error) is StoreError
    assert "certificate of the endpoint is not trusted" in error.reason
    assert "UnknownIssuer" not in error.reason


def test_a_failed_credential_provider_is_an_access_error():
    failed = exceptions.UnauthenticatedError("External credential provider: run az login")
    error = to_store_error(exceptions, failed, "az://lake/t/a", operation="read")
    assert type(error) is StoreAccessError
    assert "run az login" in error.reason


@pytest.mark.parametrize("fault", [reset, replies(403, b"")])
def test_missing_credentials_name_what_was_tried(endpoint, monkeypatch, fault):
    for name in os.environ:
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    endpoint.lasting = fault
    given = {"metadata_endpoint": endpoint.url, "region": "eu-west-1", "allow_http": "true"}
    store = open_store("s3://lake/t", {**given, "endpoint": "https://s3.invalid"})
    with pytest.raises(StoreAccessError, match=f"no credentials: .*{endpoint.url}"):
        RetryingStore(store, CONFIG).read("a")
    assert {path for _, path, _ in endpoint.requests} == {"/latest/api/token"}
