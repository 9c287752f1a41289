from __future__ import annotations

from datetime import timedelta

import pytest

from lazydelta.errors import ConfigError, StoreAccessError
from lazydelta.store import open_store
from lazydelta.store.cloud.storage_options import client_options


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("az://lake/t", {"account_name": "a", "account_key": "a2V5"}),
        ("az://lake/t", {"AZURE_STORAGE_ACCOUNT_NAME": "a", "azure_storage_account_key": "a2V5"}),
        ("az://lake/t", {"account_name": "a", "sas_token": "?sv=1&sig=x"}),
        ("az://lake/t", {"account_name": "a", "azure_storage_sas_key": "sv=1&sig=x"}),
        ("az://lake/t", {"account_name": "a", "use_azure_cli": "true"}),
        ("az://lake/t", {"account_name": "a", "anon": True}),
        ("abfss://lake@a.dfs.core.windows.net/t", {"client_id": "1", "tenant_id": "2"}),
        ("az://lake/t", {"connection_string": "AccountName=a;AccountKey=a2V5"}),
        ("az://lake/t", {"connection_string": "UseDevelopmentStorage=true"}),
        ("s3://lake/t", {"AWS_ACCESS_KEY_ID": "i", "AWS_SECRET_ACCESS_KEY": "s"}),
        ("s3://lake/t", {"aws_endpoint_url": "http://127.0.0.1:9", "aws_allow_http": "true"}),
        ("s3://lake/t", {"key": "i", "secret": "s", "endpoint_url": "https://x"}),
        ("s3://lake/t", {"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "region": "eu-west-1"}),
        ("s3://lake/t", {"timeout": "5s", "connect_timeout": "1s", "max_retries": 2}),
        ("gs://lake/t", {"anon": "true"}),
    ],
)
def test_option_names_of_obstore_and_other_tools(url, options):
    store = open_store(url, options)
    assert store.root == url
    assert repr(store) == f"ObjectStore({url!r})"


@pytest.mark.parametrize(
    ("url", "key", "reason"),
    [
        ("az://lake/t", "acount_key", "did you mean account_key"),
        ("az://lake/t", "azure_storage_acount_name", "did you mean account_name"),
        ("s3://lake/t", "AWS_SECRET_ACESS_KEY", "did you mean secret_access_key"),
        ("s3://lake/t", "account_name", "no such option for s3"),
        ("gs://lake/t", "service_acount", "did you mean service_account"),
        ("s3://lake/t", "zzz", "known are"),
        ("s3://lake/t", "aws_s3_locking_provider", "conditional put"),
        ("s3://lake/t", "retry_timeout", "cannot be"),
        ("s3://lake/t", "max_retries", "cannot be"),
        ("az://lake/t", "connection_string", "neither an account nor an endpoint"),
    ],
)
def test_unknown_options(url, key, reason):
    with pytest.raises(ConfigError, match=reason) as raised:
        open_store(url, {key: "the-secret"})
    assert key.lower() in str(raised.value).lower()


def test_an_error_does_not_quote_option_values():
    with pytest.raises(StoreAccessError, match="Check storage_options") as raised:
        open_store("az://lake/t", {"account_name": "a", "account_key": "not-base64!"})
    assert "not-base64" not in str(raised.value)


def test_values_must_be_strings():
    with pytest.raises(ConfigError, match="must be a string"):
        open_store("s3://lake/t", {"region": None})


def test_retry_options():
    options = client_options(
        "s3", {"max_retries": "7", "retry_timeout": "2m", "backoff_config.init_backoff": "250ms"}
    )
    assert options.retry["max_retries"] == 7
    assert options.retry["retry_timeout"] == timedelta(minutes=2)
    assert options.retry["backoff"]["init_backoff"] == timedelta(milliseconds=250)
    assert "max_retries" not in options.config


def test_connection_string():
    text = "AccountName=a;AccountKey=a2V5==;EndpointSuffix=core.usgovcloudapi.net"
    config = client_options("azure", {"AZURE_STORAGE_CONNECTION_STRING": text}).config
    assert config["account_key"] == "a2V5=="
    assert config["endpoint"] == "https://a.blob.core.usgovcloudapi.net"


def test_repr_has_no_secrets():
    assert "hush" not in repr(client_options("s3", {"secret_access_key": "hush"}))
