"""`hadoop_settings`: storage options as the settings of Spark's Hadoop connectors."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError
from lazydelta.spark.hadoop import azure_host
from lazydelta.store.cloud import (
    canonical_name,
    client_options,
    own_credentials,
    parse_store_url,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

__all__ = ["hadoop_settings"]

_S3A = "org.apache.hadoop.fs.s3a"
_ABFS = "org.apache.hadoop.fs.azurebfs.oauth2"
_LOGIN = "https://login.microsoftonline.com"
_ENVIRONMENT = {"azure": "AZURE_", "s3": "AWS_", "gcs": "GOOGLE_"}


def hadoop_settings(
    url: str | os.PathLike[str], storage_options: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the settings with which Spark's Hadoop connector opens a table as lazydelta does.

    Nothing is applied. The settings may hold secrets: set them where others cannot read them, as
    `spark.hadoop.<name>` of a new session or with `spark.conf.set(name, value)`. They are for one
    account or bucket each, except those for Google.

    Args:
        url: The table's location on Azure, S3 or GCS.
        storage_options: Options of the store; the environment supplies defaults.

    Raises:
        ConfigError: The connector has no such sign-in, or the URL or an option is invalid.
    """
    location = os.fspath(url)
    if "://" not in location or location.startswith("file:"):
        return {}
    parsed = parse_store_url(location)
    options = client_options(parsed.provider, {**parsed.options, **(storage_options or {})})
    config = options.config
    if options.profile is not None:
        config["profile"] = options.profile
    elif not own_credentials(parsed.provider, config):
        config = {**_environment(parsed.provider), **config}
    build: Callable[[str, dict[str, str]], dict[str, str]] = {
        "azure": _azure, "s3": _s3, "gcs": _gcs
    }[parsed.provider]  # fmt: skip
    return build(parsed.bucket, config)


def _environment(provider: str) -> dict[str, str]:
    prefix = _ENVIRONMENT[provider]
    return {
        canonical_name(provider, name): value
        for name, value in os.environ.items()
        if name.startswith(prefix) and value
    }


# --- Azure ----------------------------------------------------------------------------------------


def _azure(container: str, config: dict[str, str]) -> dict[str, str]:
    del container
    host = azure_host(config)
    if host is None:
        reason = "names no https storage account, the only stores of Hadoop's connector"
        raise ConfigError("url", reason)
    return {f"fs.azure.{name}.{host}": value for name, value in _azure_sign_in(config).items()}


def _azure_sign_in(config: dict[str, str]) -> dict[str, str]:
    kind = config.get("credential_type")
    if "token" in config or kind in ("bearer_token", "azure_cli") or "use_azure_cli" in config:
        raise _no_equivalent("a token or the Azure CLI", "a client secret or a managed identity")
    if config.get("skip_signature") == "true":
        raise _no_equivalent("anonymous access", "a SAS token")
    if "account_key" in config:
        return {"account.auth.type": "SharedKey", "account.key": config["account_key"]}
    if "sas_token" in config:
        return {"account.auth.type": "SAS", "sas.fixed.token": config["sas_token"]}
    tenant = config.get("tenant_id") or config.get("authority_id", "")
    client = config.get("client_id", "")
    if "federated_token_file" in config:
        values = {
            "msi.tenant": tenant,
            "client.id": client,
            "token.file": config["federated_token_file"],
        }
        return _oauth("WorkloadIdentityTokenProvider", values)
    if "client_secret" in config:
        login = config.get("authority_host", _LOGIN).rstrip("/")
        endpoint = f"{login}/{tenant}/oauth2/v2.0/token"
        values = {
            "client.id": client,
            "client.secret": config["client_secret"],
            "client.endpoint": endpoint,
        }
        return _oauth("ClientCredsTokenProvider", values)
    return _oauth("MsiTokenProvider", {"msi.tenant": tenant, "client.id": client})


def _oauth(provider: str, values: Mapping[str, str]) -> dict[str, str]:
    return {
        "account.auth.type": "OAuth",
        "account.oauth.provider.type": f"{_ABFS}.{provider}",
        **{f"account.oauth2.{name}": value for name, value in values.items() if value},
    }


# --- S3 and Google --------------------------------------------------------------------------------


def _s3(bucket: str, config: dict[str, str]) -> dict[str, str]:
    endpoint = config.get("endpoint")
    settings = _s3_sign_in(config)
    region = config.get("region") or config.get("default_region")
    if region is not None:
        settings["endpoint.region"] = region
    if config.get("request_payer") == "true":
        settings["requester.pays.enabled"] = "true"
    if endpoint is not None:
        settings["endpoint"] = endpoint
        settings["connection.ssl.enabled"] = str(not endpoint.startswith("http:")).lower()
        in_host = config.get("virtual_hosted_style_request") == "true"
        settings["path.style.access"] = str(not in_host).lower()
    return {f"fs.s3a.bucket.{bucket}.{name}": value for name, value in settings.items()}


def _s3_sign_in(config: dict[str, str]) -> dict[str, str]:
    provider = "aws.credentials.provider"
    if config.get("skip_signature") == "true":
        return {provider: f"{_S3A}.AnonymousAWSCredentialsProvider"}
    if "profile" in config:
        return {
            provider: f"{_S3A}.auth.ProfileAWSCredentialsProvider",
            "auth.profile.name": config["profile"],
        }
    if "access_key_id" in config:
        token = config.get("session_token")
        name = (
            "SimpleAWSCredentialsProvider" if token is None else "TemporaryAWSCredentialsProvider"
        )
        keys = {
            "access.key": config["access_key_id"],
            "secret.key": config.get("secret_access_key", ""),
        }
        return {provider: f"{_S3A}.{name}", **keys} | ({"session.token": token} if token else {})
    return {}  # S3A's default: the environment, a web identity, the instance's role


def _gcs(bucket: str, config: dict[str, str]) -> dict[str, str]:
    del bucket
    settings = {}
    if "base_url" in config:
        settings["fs.gs.storage.root.url"] = config["base_url"]
    if config.get("skip_signature") == "true":
        return {**settings, "fs.gs.auth.type": "UNAUTHENTICATED"}
    if "bearer_token" in config or "service_account_key" in config:
        raise _no_equivalent("a token or an inline key", "service_account, a path of a key file")
    file = config.get("service_account") or config.get("application_credentials")
    if file is None:
        return {**settings, "fs.gs.auth.type": "APPLICATION_DEFAULT"}
    return {
        **settings,
        "fs.gs.auth.type": "SERVICE_ACCOUNT_JSON_KEYFILE",
        "fs.gs.auth.service.account.json.keyfile": file,
    }


def _no_equivalent(sign_in: str, instead: str) -> ConfigError:
    reason = (
        f"Hadoop's connector has no setting for {sign_in}: use {instead}, or no Hadoop settings "
        "at all; the reader of lazydelta then reads the table"
    )
    return ConfigError("storage_options", reason)
