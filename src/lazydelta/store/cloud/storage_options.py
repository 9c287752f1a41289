"""Translate `storage_options` into the configuration of obstore.

Connection strings, retry settings, certificates and the endpoints of other tools are translated
here, and the environment supplies what obstore does not read from it itself.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

from lazydelta.errors import ConfigError
from lazydelta.store import tuning
from lazydelta.store.cloud.connection_string import parse_connection_string
from lazydelta.store.cloud.option_names import IGNORED, LOCKING, RETRY, canonical_name

__all__ = ["ClientOptions", "client_options", "own_credentials"]

# How obstore selects a credential, in the order in which it prefers them.
_AZURE_CREDENTIAL_TYPES = {
    "token": "bearer_token",
    "account_key": "access_key",
    "federated_token_file": "workload_identity",
    "client_secret": "client_secret",
    "sas_token": "sas_token",
    "use_azure_cli": "azure_cli",
}
_OWN_CREDENTIALS = {
    "azure": (
        *_AZURE_CREDENTIAL_TYPES,
        "client_id",
        "credential_type",
        "fabric_session_token",
        "msi_endpoint",
        "msi_resource_id",
        "object_id",
        "skip_signature",
        "use_emulator",
    ),
    "s3": ("access_key_id", "role_arn", "skip_signature", "web_identity_token_file"),
    "gcs": (
        "application_credentials",
        "bearer_token",
        "service_account",
        "service_account_key",
        "skip_signature",
    ),
}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Arguments of an obstore client; `config` may hold secrets and is not in `repr`."""

    config: dict[str, str] = field(repr=False)
    retry: dict[str, Any]
    root_certificate: str | None = field(default=None, repr=False)
    """PEM of the certificates that are trusted in addition to those of the system."""
    profile: str | None = None
    """The AWS profile that signs the requests."""
    environment: frozenset[str] = frozenset()
    """The names that variables of the environment supplied."""


def client_options(provider: str, options: Mapping[str, Any]) -> ClientOptions:
    """Translate the caller's options for a provider (azure, s3 or gcs)."""
    config: dict[str, str] = {"timeout": tuning.REQUEST_TIMEOUT}
    retry = dict(tuning.CLIENT_RETRY)
    for name, key, value in _options(provider, options):
        if key in LOCKING:
            raise ConfigError(
                f"storage_options[{name!r}]",
                "lazydelta commits by conditional put, not under a lock: remove this option, "
                "and let no writer of this table rely on one",
            )
        if key in RETRY:
            _set_retry(retry, key, value)
        elif key == "connection_string":
            config |= parse_connection_string(f"storage_options[{name!r}]", value)
        elif key not in IGNORED:
            config[key] = value.removeprefix("?") if key == "sas_token" else value
    _set_endpoint(provider, config)
    certificate = _root_certificate(provider, config)
    own = set(config)
    profile = config.pop("profile", None)
    if not own_credentials(provider, config):
        if provider == "azure":
            _add_azure_environment(config)
        if provider == "s3" and not os.environ.keys() & {
            "AWS_ACCESS_KEY_ID",
            "AWS_WEB_IDENTITY_TOKEN_FILE",
        }:
            profile = profile or os.environ.get("AWS_PROFILE")
    elif provider == "azure":
        _prefer_own_credential(config)
    names = {*config, *([] if profile is None else ["profile"])}
    return ClientOptions(
        config=config,
        retry=_retry_config(retry),
        root_certificate=certificate,
        profile=profile,
        environment=frozenset(names - own),
    )


def own_credentials(provider: str, config: Mapping[str, str]) -> set[str]:
    """Return the names in a configuration that select a credential."""
    return config.keys() & set(_OWN_CREDENTIALS[provider])


def _options(provider: str, options: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """Return name, canonical name and value of each option."""
    found = []
    for name, raw in options.items():
        if name == "client_kwargs" and isinstance(raw, Mapping):
            found += _options(provider, raw)
            continue
        key = canonical_name(provider, name)
        if not isinstance(raw, str | bool | int | float):
            raise ConfigError(f"storage_options[{name!r}]", "must be a string")
        value = str(raw).lower() if isinstance(raw, bool) else str(raw)
        if provider == "gcs" and key == "token":  # gcsfs: a file, or how to sign in
            key, value = _GCS_TOKENS.get(value, ("service_account", value))
        found.append((name, key, value))
    return found


_GCS_TOKENS = {
    "anon": ("skip_signature", "true"),
    "google_default": ("project", ""),
    "cloud": ("project", ""),
}


def _set_endpoint(provider: str, config: dict[str, str]) -> None:
    """Replace the hosts of adlfs and pyarrow, which may lack a scheme, by an endpoint."""
    scheme = config.pop("scheme", None) or config.pop("blob_storage_scheme", None) or "https"
    host = config.pop("endpoint_override", None) or config.pop("account_host", None)
    authority = config.pop("blob_storage_authority", None)
    if authority is not None and authority.startswith("."):
        host = f"{config.get('account_name', '')}{authority}"
    elif authority is not None:
        host = f"{authority}/{config.get('account_name', '')}"
    if host is None:
        return
    endpoint = host if "://" in host else f"{scheme}://{host}"
    config["base_url" if provider == "gcs" else "endpoint"] = endpoint
    if endpoint.startswith("http://"):
        config["allow_http"] = "true"


def _root_certificate(provider: str, config: dict[str, str]) -> str | None:
    """Return the trusted certificates, from an option or from `AWS_CA_BUNDLE`.

    `SSL_CERT_FILE` is not read here: it replaces the roots of the system inside the client.
    """
    inline = config.pop("root_certificate", None)
    bundle = config.pop("ca_bundle", None)
    setting = "storage_options['ca_bundle']"
    if bundle in ("true", "false"):  # `verify` of requests and botocore
        config["allow_invalid_certificates"] = "false" if bundle == "true" else "true"
        bundle = None
    if inline is not None:
        return inline
    if bundle is None and provider == "s3" and os.environ.get("AWS_CA_BUNDLE"):
        bundle, setting = os.environ["AWS_CA_BUNDLE"], "AWS_CA_BUNDLE"
    if bundle is None:
        return None
    try:
        certificate = Path(bundle).expanduser().read_text(encoding="ascii", errors="replace")
    except OSError as error:
        raise ConfigError(setting, f"{bundle!r} cannot be read: {error.strerror}") from None
    if "-----BEGIN CERTIFICATE-----" not in certificate:
        raise ConfigError(setting, f"{bundle!r} has no PEM certificate")
    return certificate


def _add_azure_environment(config: dict[str, str]) -> None:
    """Add the variables of the Azure CLI, which obstore does not read.

    Credentials of another account than that of the URL are not used.
    """
    connection_string = os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    found: dict[str, str] = {}
    if connection_string:
        found = parse_connection_string("AZURE_STORAGE_CONNECTION_STRING", connection_string)
    else:
        names = {
            "AZURE_STORAGE_ACCOUNT": "account_name",
            "AZURE_STORAGE_KEY": "account_key",
            "AZURE_STORAGE_SAS_TOKEN": "sas_token",
        }
        found = {key: os.environ[name] for name, key in names.items() if os.environ.get(name)}
        if "sas_token" in found:
            found["sas_token"] = found["sas_token"].removeprefix("?")
    account = found.get("account_name")
    if account is None or config.setdefault("account_name", account) == account:
        for key, value in found.items():
            config.setdefault(key, value)


def _prefer_own_credential(config: dict[str, str]) -> None:
    """Name the kind of the caller's credential: obstore may prefer one of the environment."""
    if config.keys() & {"use_emulator", "skip_signature", "credential_type"}:
        return
    if "AZURE_CREDENTIAL_TYPE" in os.environ:
        return
    for key, kind in _AZURE_CREDENTIAL_TYPES.items():
        if config.get(key, "false") != "false":
            config["credential_type"] = kind
            return


def _set_retry(retry: dict[str, float], key: str, value: str) -> None:
    match = _DURATION.fullmatch(value)
    has_no_unit = key in ("max_retries", "backoff_config.base")
    if (
        match is None
        or (has_no_unit and match[2])
        or (key == "max_retries" and not value.isdecimal())
    ):
        raise ConfigError(f"storage_options[{key!r}]", f"cannot be {value!r}")
    retry[key] = float(match[1]) * _SECONDS[match[2]]


def _retry_config(retry: Mapping[str, float]) -> dict[str, Any]:
    return {
        "max_retries": int(retry["max_retries"]),
        "retry_timeout": timedelta(seconds=retry["retry_timeout"]),
        "backoff": {
            "init_backoff": timedelta(seconds=retry["backoff_config.init_backoff"]),
            "max_backoff": timedelta(seconds=retry["backoff_config.max_backoff"]),
            "base": retry["backoff_config.base"],
        },
    }
