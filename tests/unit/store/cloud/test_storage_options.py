from __future__ import annotations

import hashlib
import json
import sys
from datetime import timedelta

import pytest

from lazydelta.errors import ConfigError, MissingExtraError, StoreAccessError, StoreError
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
        ("az://lake/t", {"account_name": "a", "azure_storage_master_key": "a2V5"}),
        ("az://lake/t", {"account_name": "a", "anonymous": True}),
        ("az://lake/t", {"AZURE_STORAGE_ACCOUNT": "a", "AZURE_STORAGE_KEY": "a2V5"}),
        ("az://lake/t", {"account_name": "a", "token": "t", "account_host": "a.example.net"}),
        ("s3://lake/t", {"access_key": "i", "secret_key": "s", "anonymous": False}),
        ("s3://lake/t", {"key": "i", "secret": "s", "token": "t", "default_fill_cache": False}),
        ("s3://lake/t", {"requester_pays": True, "client_kwargs": {"region_name": "eu-west-1"}}),
        ("gs://lake/t", {"access_token": "t", "project_id": "p"}),
        ("gs://lake/t", {"token": "anon", "project": "p"}),
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


@pytest.mark.parametrize(
    ("provider", "options", "expected"),
    [
        (
            "s3",
            {"endpoint_override": "localhost:9000", "scheme": "http"},
            {"endpoint": "http://localhost:9000", "allow_http": "true"},
        ),
        ("s3", {"endpoint_override": "https://minio"}, {"endpoint": "https://minio"}),
        ("gcs", {"endpoint_override": "gcs.local"}, {"base_url": "https://gcs.local"}),
        (
            "azure",
            {
                "account_name": "acct",
                "blob_storage_authority": "127.0.0.1:10000",
                "blob_storage_scheme": "http",
                "dfs_storage_authority": "127.0.0.1:10000",
            },
            {"endpoint": "http://127.0.0.1:10000/acct", "allow_http": "true"},
        ),
        (
            "azure",
            {"account_name": "acct", "blob_storage_authority": ".blob.core.usgovcloudapi.net"},
            {"endpoint": "https://acct.blob.core.usgovcloudapi.net"},
        ),
    ],
)
def test_endpoints_of_pyarrow_filesystems(provider, options, expected):
    assert expected.items() <= client_options(provider, options).config.items()


def test_a_connection_string_with_a_signature_only():
    text = "BlobEndpoint=https://acct.blob.core.windows.net/;SharedAccessSignature=?sv=1&sig=a%3D"
    config = client_options("azure", {"connection_string": text}).config
    assert config["account_name"] == "acct"
    assert config["endpoint"] == "https://acct.blob.core.windows.net"
    assert config["sas_token"] == "sv=1&sig=a%3D"
    emulator = "BlobEndpoint=http://127.0.0.1:10000/devstoreaccount1;SharedAccessSignature=sig=x"
    config = client_options("azure", {"connection_string": emulator}).config
    assert (config["account_name"], config["allow_http"]) == ("devstoreaccount1", "true")


class TestAzureEnvironment:
    def test_connection_string(self, monkeypatch):
        text = "AccountName=acct;AccountKey=a2V5"
        monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
        assert open_store("az://lake/t").root == "az://lake/t"
        config = client_options("azure", {}).config
        assert (config["account_name"], config["account_key"]) == ("acct", "a2V5")

    @pytest.mark.parametrize(
        ("variable", "value", "key"),
        [
            ("AZURE_STORAGE_KEY", "a2V5", "account_key"),
            ("AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=x", "sas_token"),
        ],
    )
    def test_variables_of_the_azure_cli(self, monkeypatch, variable, value, key):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "acct")
        monkeypatch.setenv(variable, value)
        config = client_options("azure", {}).config
        assert (config["account_name"], config[key]) == ("acct", value)

    def test_credentials_of_another_account_are_not_used(self, monkeypatch):
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT", "acct")
        monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
        assert "account_key" not in client_options("azure", {"account_name": "other"}).config

    def test_options_win(self, http_server, monkeypatch):
        """obstore prefers a key to a signature, wherever they come from."""
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
        monkeypatch.setenv("AZURE_STORAGE_KEY", "a2V5")
        http_server.responses = [(200, b"hello")]
        options = {"sas_token": "sv=1&sig=x", "endpoint": http_server.url, "allow_http": "true"}
        open_store("az://lake/t", {"account_name": "acct", **options}).read("a")
        _, path, headers = http_server.requests[0]
        assert "sig=x" in path
        assert "authorization" not in headers


class TestAwsProfile:
    @pytest.fixture
    def options(self, http_server, tmp_path, monkeypatch):
        config = tmp_path / "config"
        config.write_text(
            "[profile static]\nregion = eu-central-1\n"
            "aws_access_key_id = profile-id\naws_secret_access_key = profile-secret\n"
            "[profile empty]\nregion = eu-central-1\n"
            "[profile sso]\nregion = eu-west-1\nsso_start_url = https://start.example\n"
            "sso_region = eu-west-1\nsso_account_id = 1\nsso_role_name = reader\n"
        )
        monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
        http_server.responses = [(200, b"hello")]
        return {"endpoint": http_server.url, "allow_http": "true"}

    @pytest.mark.parametrize("name", ["profile", "aws_profile", "AWS_PROFILE"])
    def test_option(self, options, http_server, name):
        open_store("s3://lake/t", {**options, name: "static"}).read("a")
        authorization = http_server.requests[0][2]["authorization"]
        assert "Credential=profile-id/" in authorization
        assert "/eu-central-1/" in authorization

    def test_environment(self, options, http_server, monkeypatch):
        monkeypatch.setenv("AWS_PROFILE", "static")
        open_store("s3://lake/t", options).read("a")
        assert "Credential=profile-id/" in http_server.requests[0][2]["authorization"]

    @pytest.mark.parametrize("where", ["options", "environment"])
    def test_keys_win_over_the_profile_of_the_environment(
        self, options, http_server, monkeypatch, where
    ):
        monkeypatch.setenv("AWS_PROFILE", "static")
        keys = {"AWS_ACCESS_KEY_ID": "own-id", "AWS_SECRET_ACCESS_KEY": "own-secret"}
        if where == "environment":
            for name, value in keys.items():
                monkeypatch.setenv(name, value)
        else:
            options |= keys
        open_store("s3://lake/t", options).read("a")
        assert "Credential=own-id/" in http_server.requests[0][2]["authorization"]

    def test_keys_do_not_get_the_session_token_of_the_environment(
        self, options, http_server, monkeypatch
    ):
        monkeypatch.setenv("AWS_SESSION_TOKEN", "of-another-key")
        keys = {"access_key_id": "own-id", "secret_access_key": "own-secret"}
        open_store("s3://lake/t", {**options, **keys}).read("a")
        headers = http_server.requests[0][2]
        assert "Credential=own-id/" in headers["authorization"]
        assert "x-amz-security-token" not in headers

    def test_sso_cache(self, options, http_server, tmp_path, monkeypatch):
        cache = tmp_path / "cache"
        cache.mkdir()
        provider = pytest.importorskip("botocore.credentials", reason="needs boto3").SSOProvider
        monkeypatch.setattr(provider, "_SSO_TOKEN_CACHE_DIR", str(cache))
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", http_server.url)
        name = hashlib.sha1(b"https://start.example", usedforsecurity=False).hexdigest()
        token = {"accessToken": "sso-token", "expiresAt": "2099-01-01T00:00:00Z"}
        (cache / f"{name}.json").write_text(json.dumps(token))
        role = {
            "accessKeyId": "role-id",
            "secretAccessKey": "role-secret",
            "sessionToken": "role-session",
            "expiration": 4_000_000_000_000,
        }
        http_server.responses = [
            (200, json.dumps({"roleCredentials": role}).encode()),
            (200, b"hello"),
        ]
        store = open_store("s3://lake/t", {**options, "profile": "sso"})
        assert bytes(store.read("a")) == b"hello"
        (_, path, sso), (_, _, signed) = http_server.requests
        assert path.startswith("/federation/credentials")
        assert sso["x-amz-sso_bearer_token"] == "sso-token"
        assert "Credential=role-id/" in signed["authorization"]
        assert signed["x-amz-security-token"] == "role-session"

    @pytest.mark.parametrize(
        ("name", "reason"), [("missing", "no AWS profile"), ("empty", "no credentials")]
    )
    def test_a_profile_that_cannot_be_used(self, options, name, reason, monkeypatch):
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        with pytest.raises(ConfigError, match=reason):
            open_store("s3://lake/t", {**options, "profile": name})

    def test_boto3_is_named_if_it_is_missing(self, options, monkeypatch):
        monkeypatch.setitem(sys.modules, "boto3", None)
        with pytest.raises(MissingExtraError, match=r"pip install 'lazydelta\[aws\]'"):
            open_store("s3://lake/t", {**options, "profile": "static"})


class TestCertificates:
    @pytest.fixture
    def options(self, http_server, certificates):
        http_server.use_tls(certificates / "server.pem", certificates / "server.key")
        http_server.responses = [(200, b"hello")]
        return {
            "access_key_id": "i",
            "secret_access_key": "s",
            "endpoint": http_server.url,
            "max_retries": "0",
        }

    @pytest.mark.parametrize("name", ["ca_bundle", "AWS_CA_BUNDLE", "tls_ca_file_path", "verify"])
    def test_a_bundle_is_trusted(self, options, certificates, name):
        store = open_store("s3://lake/t", {**options, name: str(certificates / "ca.pem")})
        assert bytes(store.read("a")) == b"hello"

    def test_the_environment(self, options, certificates, monkeypatch):
        with pytest.raises(StoreError):
            open_store("s3://lake/t", options).read("a")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(certificates / "ca.pem"))
        assert bytes(open_store("s3://lake/t", options).read("a")) == b"hello"

    def test_certificates_as_a_string(self, options, certificates):
        pem = (certificates / "ca.pem").read_text()
        store = open_store("s3://lake/t", {**options, "root_certificate": pem})
        assert bytes(store.read("a")) == b"hello"

    def test_a_bundle_that_cannot_be_used(self, tmp_path):
        with pytest.raises(ConfigError, match="cannot be read"):
            client_options("s3", {"ca_bundle": str(tmp_path / "missing")})
        (tmp_path / "empty").touch()
        with pytest.raises(ConfigError, match="no PEM certificate"):
            client_options("s3", {"ca_bundle": str(tmp_path / "empty")})
