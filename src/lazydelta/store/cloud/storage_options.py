"""Translate `storage_options` into the configuration of obstore.

The names of delta-rs and object_store (`azure_storage_account_key`, `AWS_ACCESS_KEY_ID`, ...) are
aliases of obstore and pass through. Names of adlfs, s3fs and gcsfs, connection strings and retry
settings are translated. obstore refuses unknown names; `unknown_option` suggests similar ones.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError
from lazydelta.store import tuning

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ClientOptions", "client_options", "unknown_option"]

_CLIENT = (
    "allow_http",
    "allow_invalid_certificates",
    "connect_timeout",
    "pool_idle_timeout",
    "pool_max_idle_per_host",
    "proxy_url",
    "read_timeout",
    "timeout",
    "user_agent",
)
_RETRY = (
    "backoff_config.base",
    "backoff_config.init_backoff",
    "backoff_config.max_backoff",
    "max_retries",
    "retry_timeout",
)
_KNOWN = {
    "azure": (
        "account_key",
        "account_name",
        "authority_host",
        "client_id",
        "client_secret",
        "connection_string",
        "credential_type",
        "endpoint",
        "fabric_session_token",
        "federated_token_file",
        "msi_endpoint",
        "msi_resource_id",
        "object_id",
        "sas_key",
        "sas_token",
        "skip_signature",
        "tenant_id",
        "token",
        "use_azure_cli",
        "use_emulator",
        "use_fabric_endpoint",
    ),
    "s3": (
        "access_key_id",
        "conditional_put",
        "default_region",
        "disable_bulk_delete",
        "endpoint",
        "endpoint_url",
        "region",
        "request_payer",
        "role_arn",
        "secret_access_key",
        "session_token",
        "skip_signature",
        "virtual_hosted_style_request",
        "web_identity_token_file",
    ),
    "gcs": (
        "application_credentials",
        "base_url",
        "bearer_token",
        "service_account",
        "service_account_key",
        "skip_signature",
    ),
}
_OTHER_TOOLS = {
    "azure": {"anon": "skip_signature", "azure_storage_connection_string": "connection_string"},
    "s3": {
        "anon": "skip_signature",
        "key": "access_key_id",
        "secret": "secret_access_key",
        "aws_s3_endpoint": "endpoint",
    },
    "gcs": {"anon": "skip_signature", "token": "service_account"},
}
# Options of delta-rs that commits by conditional put do not need.
_IGNORED = {"aws_s3_allow_unsafe_rename", "s3_allow_unsafe_rename", "allow_unsafe_rename"}
_LOCKING = {"aws_s3_locking_provider", "s3_locking_provider", "locking_provider"}
_PREFIXES = {"azure": ("azure_storage_", "azure_"), "s3": ("aws_",), "gcs": ("google_",)}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """Arguments of an obstore client; `config` may hold secrets and is not in `repr`."""

    config: dict[str, str] = field(repr=False)
    retry: dict[str, Any]


def client_options(provider: str, options: Mapping[str, str]) -> ClientOptions:
    """Translate the caller's options for a provider (azure, s3 or gcs)."""
    config: dict[str, str] = {"timeout": tuning.REQUEST_TIMEOUT}
    retry = dict(tuning.CLIENT_RETRY)
    for name, raw in options.items():
        key = _OTHER_TOOLS[provider].get(name.lower(), name.lower())
        if not isinstance(raw, str | bool | int | float):
            raise ConfigError(f"storage_options[{name!r}]", "must be a string")
        value = str(raw).lower() if isinstance(raw, bool) else str(raw)
        if key in _LOCKING:
            raise ConfigError(
                f"storage_options[{name!r}]",
                "lazydelta commits by conditional put, not under a lock: remove this option, "
                "and let no writer of this table rely on one",
            )
        if key in _RETRY:
            _set_retry(retry, key, value)
        elif key == "connection_string":
            config |= _parse_connection_string(name, value)
        elif key not in _IGNORED:
            config[key] = value.removeprefix("?") if key.endswith("sas_token") else value
    return ClientOptions(config=config, retry=_retry_config(retry))


def unknown_option(provider: str, key: str) -> ConfigError:
    """Return the error for a key that obstore refused, with suggestions."""
    bare = key.lower()
    for prefix in _PREFIXES[provider]:
        bare = bare.removeprefix(prefix)
    known = (*_KNOWN[provider], *_CLIENT, *_RETRY)
    similar = difflib.get_close_matches(bare, known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(similar)}?" if similar else f"known are {', '.join(known)}"
    return ConfigError(f"storage_options[{key!r}]", f"no such option for {provider} stores; {hint}")


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


def _parse_connection_string(option: str, connection_string: str) -> dict[str, str]:
    """Return the configuration in an Azure connection string."""
    pairs = dict(part.split("=", 1) for part in connection_string.split(";") if "=" in part)
    values = {key.strip().lower(): value for key, value in pairs.items()}
    if values.get("usedevelopmentstorage", "").lower() == "true":
        return {"use_emulator": "true"}
    names = {
        "accountname": "account_name",
        "accountkey": "account_key",
        "sharedaccesssignature": "sas_token",
        "blobendpoint": "endpoint",
    }
    config = {name: values[key] for key, name in names.items() if values.get(key)}
    if not config.keys() & {"account_name", "endpoint"}:
        raise ConfigError(f"storage_options[{option!r}]", "has neither an account nor an endpoint")
    suffix = values.get("endpointsuffix", "core.windows.net")
    if "endpoint" not in config and suffix != "core.windows.net":
        config["endpoint"] = f"https://{config['account_name']}.blob.{suffix}"
    if config.get("endpoint", "").startswith("http://"):
        config["allow_http"] = "true"
    return config
