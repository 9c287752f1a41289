"""What URL, options and environment resolve to: account, endpoint, kind of credential.

Contains no secret: values of credentials are never read, only their names.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lazydelta.errors import redact
from lazydelta.store.cloud.storage_options import client_options
from lazydelta.store.cloud.store_url import parse_store_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.store.cloud.store_url import StoreUrl

__all__ = ["Resolution", "resolve"]

# Option, kind, and the variables that obstore reads it from, in the order of its preference.
_KINDS: dict[str, tuple[tuple[str, str, tuple[str, ...]], ...]] = {
    "azure": (
        ("skip_signature", "anonymous", ("AZURE_SKIP_SIGNATURE",)),
        ("use_emulator", "account key of the emulator", ("AZURE_STORAGE_USE_EMULATOR",)),
        ("token", "bearer token", ("AZURE_STORAGE_TOKEN",)),
        ("fabric_session_token", "Fabric session token", ("AZURE_FABRIC_SESSION_TOKEN",)),
        (
            "account_key",
            "account key",
            ("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
        ),
        ("federated_token_file", "workload identity", ("AZURE_FEDERATED_TOKEN_FILE",)),
        (
            "client_secret",
            "client secret",
            ("AZURE_STORAGE_CLIENT_SECRET", "AZURE_CLIENT_SECRET"),
        ),
        ("sas_token", "SAS token", ("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_SAS_TOKEN")),
        ("use_azure_cli", "Azure CLI", ("AZURE_USE_AZURE_CLI",)),
    ),
    "s3": (
        ("skip_signature", "anonymous", ("AWS_SKIP_SIGNATURE",)),
        ("profile", "AWS profile", ("AWS_PROFILE",)),
        ("access_key_id", "access key", ("AWS_ACCESS_KEY_ID",)),
        ("web_identity_token_file", "web identity", ("AWS_WEB_IDENTITY_TOKEN_FILE",)),
        (
            "container_credentials_relative_uri",
            "container credentials",
            ("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
        ),
    ),
    "gcs": (
        ("skip_signature", "anonymous", ("GOOGLE_SKIP_SIGNATURE",)),
        ("bearer_token", "bearer token", ("GOOGLE_BEARER_TOKEN",)),
        (
            "service_account",
            "service account file",
            ("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH"),
        ),
        ("service_account_key", "service account key", ("GOOGLE_SERVICE_ACCOUNT_KEY",)),
        (
            "application_credentials",
            "application default credentials",
            ("GOOGLE_APPLICATION_CREDENTIALS",),
        ),
    ),
}
_DEFAULT_KINDS = {
    "azure": "managed identity",
    "s3": "instance metadata",
    "gcs": "application default credentials",
}
_ENDPOINTS = {
    "azure": ("endpoint", ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")),
    "s3": ("endpoint", ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")),
    "gcs": ("base_url", ("GOOGLE_BASE_URL",)),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """Where requests go, and how they are signed."""

    provider: str
    account: str | None
    bucket: str
    prefix: str
    endpoint: str
    region: str | None
    credential: str
    """The kind of the credential."""
    credential_source: str
    """Where it is from: storage_options, url, environment or default."""


def resolve(url: str, storage_options: Mapping[str, Any]) -> Resolution:
    """Resolve an address as `open_store` does, without a request."""
    parsed = parse_store_url(url)
    resolved = client_options(parsed.provider, {**parsed.options, **storage_options})
    config = dict(resolved.config)
    if resolved.profile is not None:
        config["profile"] = resolved.profile
    kind, source = _credential(parsed, config, resolved.environment)
    account = None
    if parsed.provider == "azure":
        account = config.get("account_name") or os.environ.get("AZURE_STORAGE_ACCOUNT_NAME")
    region = None
    if parsed.provider == "s3":
        variables = ("AWS_REGION", "AWS_DEFAULT_REGION")
        region = config.get("region") or config.get("default_region") or _variable(variables)
    return Resolution(
        provider=parsed.provider,
        account=account,
        bucket=parsed.bucket,
        prefix=parsed.prefix,
        endpoint=redact(_endpoint(parsed, config, account, region)),
        region=region,
        credential=f"{kind} {config['profile']}" if kind == "AWS profile" else kind,
        credential_source=source,
    )


def _credential(
    url: StoreUrl, config: Mapping[str, str], environment: frozenset[str]
) -> tuple[str, str]:
    """Return the kind and the source of the credential: options and URL before the environment."""
    kinds = _KINDS[url.provider]
    for option, kind, _ in kinds:
        if config.get(option, "false") != "false":
            if option in environment:
                return kind, "environment"
            is_of_url = url.options.get(option) == config[option]
            return kind, "url" if is_of_url else "storage_options"
    for _, kind, variables in kinds:
        if _variable(variables) is not None:
            return kind, "environment"
    return _DEFAULT_KINDS[url.provider], "default"


def _endpoint(
    url: StoreUrl, config: Mapping[str, str], account: str | None, region: str | None
) -> str:
    option, variables = _ENDPOINTS[url.provider]
    explicit = config.get(option) or _variable(variables)
    if explicit:
        return explicit
    if url.provider == "gcs":
        return "https://storage.googleapis.com"
    if url.provider == "s3":
        return f"https://s3.{region or 'us-east-1'}.amazonaws.com"
    if config.get("use_emulator") == "true":
        return "http://127.0.0.1:10000"
    is_fabric = config.get("use_fabric_endpoint") == "true"
    return f"https://{account}.blob.{'fabric.microsoft.com' if is_fabric else 'core.windows.net'}"


def _variable(names: tuple[str, ...]) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
