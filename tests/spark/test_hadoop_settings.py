"""Storage options and URLs in the terms of Hadoop's connectors."""

from __future__ import annotations

import pytest

pytest.importorskip("pyspark")
from lazydelta.errors import ConfigError
from lazydelta.spark import hadoop_settings
from lazydelta.spark.hadoop import hadoop_root
from lazydelta.store import MemoryStore, open_store

HOST = "acct.dfs.core.windows.net"
AZURE = f"abfss://lake@{HOST}/t"
OAUTH = "org.apache.hadoop.fs.azurebfs.oauth2"
S3A = "org.apache.hadoop.fs.s3a"


@pytest.fixture(autouse=True)
def _no_environment(monkeypatch):
    import os

    for name in list(os.environ):
        if name.startswith(("AZURE_", "AWS_", "GOOGLE_")):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("url", "options", "root"),
    [
        ("/lake/a b", {}, "file:///lake/a b"),
        (f"abfs://lake@{HOST}/a%20b/", {}, f"abfss://lake@{HOST}/a b"),
        ("https://acct.blob.core.windows.net/lake/t", {}, f"abfss://lake@{HOST}/t"),
        ("az://lake/t", {"account_name": "acct", "account_key": "aGk="}, f"abfss://lake@{HOST}/t"),
        (
            "abfss://space@onelake.dfs.fabric.microsoft.com/i.Lakehouse/Tables/t",
            {"token": "x"},
            "abfss://space@onelake.dfs.fabric.microsoft.com/i.Lakehouse/Tables/t",
        ),
        (
            "abfss://lake@acct.z37.dfs.storage.azure.net/t",
            {},
            "abfss://lake@acct.z37.dfs.storage.azure.net/t",
        ),
        (
            "az://lake/t",
            {"account_name": "devstoreaccount1", "endpoint": "http://127.0.0.1:1/devstoreaccount1"},
            None,
        ),
        ("s3://lake/a%20b", {"region": "eu-west-1"}, "s3a://lake/a b"),
        ("https://lake.s3.eu-west-1.amazonaws.com/t", {}, "s3a://lake/t"),
        ("gs://lake/t", {"skip_signature": "true"}, "gs://lake/t"),
        ("https://storage.googleapis.com/lake/t", {"skip_signature": "true"}, "gs://lake/t"),
    ],
)
def test_a_root_has_the_scheme_of_the_connector_and_a_plain_path(url, options, root):
    assert hadoop_root(open_store(url, options)) == root


def test_a_store_of_the_caller_has_no_hadoop_url():
    assert hadoop_root(MemoryStore(root="memory://t")) is None


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        ({"account_key": "aGk="}, {"account.auth.type": "SharedKey", "account.key": "aGk="}),
        ({"sas_token": "?sig=x"}, {"account.auth.type": "SAS", "sas.fixed.token": "sig=x"}),
        (
            {"client_id": "c", "client_secret": "s", "tenant_id": "t"},
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": f"{OAUTH}.ClientCredsTokenProvider",
                "account.oauth2.client.id": "c",
                "account.oauth2.client.secret": "s",
                "account.oauth2.client.endpoint": (
                    "https://login.microsoftonline.com/t/oauth2/v2.0/token"
                ),
            },
        ),
        (
            {"client_id": "c", "federated_token_file": "/f", "tenant_id": "t"},
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": f"{OAUTH}.WorkloadIdentityTokenProvider",
                "account.oauth2.msi.tenant": "t",
                "account.oauth2.client.id": "c",
                "account.oauth2.token.file": "/f",
            },
        ),
        (
            {"client_id": "c"},
            {
                "account.auth.type": "OAuth",
                "account.oauth.provider.type": f"{OAUTH}.MsiTokenProvider",
                "account.oauth2.client.id": "c",
            },
        ),
    ],
)
def test_azure_settings_are_for_one_account(options, settings):
    expected = {f"fs.azure.{name}.{HOST}": value for name, value in settings.items()}
    assert hadoop_settings(AZURE, options) == expected


def test_the_environment_signs_in_where_the_options_do_not(monkeypatch):
    for name, value in {"CLIENT_ID": "c", "CLIENT_SECRET": "s", "TENANT_ID": "t"}.items():
        monkeypatch.setenv(f"AZURE_{name}", value)
    key = f"fs.azure.account.oauth2.client.secret.{HOST}"
    assert hadoop_settings(AZURE)[key] == "s"
    assert key not in hadoop_settings(AZURE, {"account_key": "aGk="})
    monkeypatch.setenv("AWS_PROFILE", "p")
    assert hadoop_settings("s3://lake/t")["fs.s3a.bucket.lake.auth.profile.name"] == "p"


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (
            {"key": "k", "secret": "s", "region": "eu-west-1"},
            {
                "aws.credentials.provider": f"{S3A}.SimpleAWSCredentialsProvider",
                "access.key": "k",
                "secret.key": "s",
                "endpoint.region": "eu-west-1",
            },
        ),
        (
            {"access_key_id": "k", "secret_access_key": "s", "session_token": "t"},
            {
                "aws.credentials.provider": f"{S3A}.TemporaryAWSCredentialsProvider",
                "access.key": "k",
                "secret.key": "s",
                "session.token": "t",
            },
        ),
        (
            {"anon": "true", "endpoint_url": "http://127.0.0.1:9000", "requester_pays": "true"},
            {
                "aws.credentials.provider": f"{S3A}.AnonymousAWSCredentialsProvider",
                "endpoint": "http://127.0.0.1:9000",
                "connection.ssl.enabled": "false",
                "path.style.access": "true",
                "requester.pays.enabled": "true",
            },
        ),
        ({}, {}),
    ],
)
def test_s3_settings_are_for_one_bucket(options, settings):
    expected = {f"fs.s3a.bucket.lake.{name}": value for name, value in settings.items()}
    assert hadoop_settings("s3://lake/t", options) == expected


@pytest.mark.parametrize(
    ("options", "settings"),
    [
        (
            {"service_account": "/key.json"},
            {
                "auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
                "auth.service.account.json.keyfile": "/key.json",
            },
        ),
        ({"token": "anon"}, {"auth.type": "UNAUTHENTICATED"}),
        ({}, {"auth.type": "APPLICATION_DEFAULT"}),
    ],
)
def test_google_settings(options, settings):
    expected = {f"fs.gs.{name}": value for name, value in settings.items()}
    assert hadoop_settings("gs://lake/t", options) == expected


@pytest.mark.parametrize(
    ("url", "options"),
    [
        (AZURE, {"token": "canary"}),
        (AZURE, {"use_azure_cli": "true"}),
        (AZURE, {"anon": "true"}),
        ("gs://lake/t", {"bearer_token": "canary"}),
        ("az://lake/t", {}),
    ],
)
def test_a_sign_in_that_hadoop_does_not_have_is_an_error(url, options):
    with pytest.raises(ConfigError) as caught:
        hadoop_settings(url, options)
    assert "canary" not in str(caught.value)


def test_a_local_table_needs_no_settings():
    assert hadoop_settings("/lake/t") == hadoop_settings("file:///lake/t") == {}
