"""What callers may say in `storage_options`, in obstore's words or in those of other tools. Pure.

delta-rs and object_store names (`azure_storage_account_key`, `AWS_ACCESS_KEY_ID`, ...) are
obstore's own aliases and pass through; names of adlfs, s3fs and gcsfs, connection strings and
retry settings are translated. obstore refuses what neither knows, and `unknown_option` says what
was probably meant.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, field
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from lazydelta.errors import ConfigError

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
# delta-rs asks for consent to its unsafe S3 renames; commits here are conditional puts.
_NEEDLESS = {"aws_s3_allow_unsafe_rename", "s3_allow_unsafe_rename", "allow_unsafe_rename"}
_LOCKS = {"aws_s3_locking_provider", "s3_locking_provider", "locking_provider"}
_PREFIXES = {"azure": ("azure_storage_", "azure_"), "s3": ("aws_",), "gcs": ("google_",)}
_DURATION = re.compile(r"(\d+(?:\.\d+)?) ?(ms|s|m|h)?")
_SECONDS = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientOptions:
    """What obstore is given: `config` may hold secrets and never shows in a `repr`."""

    config: dict[str, str] = field(repr=False)
    retry: dict[str, Any]


def client_options(kind: str, options: Mapping[str, str]) -> ClientOptions:
    """Translate the caller's options for a `kind` of store (azure, s3 or gcs)."""
    config: dict[str, str] = {"timeout": "120s"}
    retry = dict(_DEFAULT_RETRY)
    for given, value in options.items():
        key = _OTHER_TOOLS[kind].get(given.lower(), given.lower())
        if not isinstance(value, str | bool | int | float):
            raise ConfigError(f"storage_options[{given!r}]", "must be text")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if key in _LOCKS:
            raise ConfigError(
                f"storage_options[{given!r}]",
                "lazydelta commits by conditional put, not under a lock: remove this option, "
                "and let no writer of this table rely on one",
            )
        if key in _RETRY:
            _set_retry(retry, key, text)
        elif key == "connection_string":
            config |= _connection_string(given, text)
        elif key not in _NEEDLESS:
            config[key] = text.removeprefix("?") if key.endswith("sas_token") else text
    return ClientOptions(config=config, retry=_retry_config(retry))


def unknown_option(kind: str, key: str) -> ConfigError:
    """Return the error for a key that obstore refused, with the names that come near it."""
    bare = key.lower()
    for prefix in _PREFIXES[kind]:
        bare = bare.removeprefix(prefix)
    known = (*_KNOWN[kind], *_CLIENT, *_RETRY)
    near = difflib.get_close_matches(bare, known, n=2, cutoff=0.6)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are {', '.join(known)}"
    return ConfigError(f"storage_options[{key!r}]", f"no such option for {kind} stores; {hint}")


# Few and short: `RetryingStore` tries again above this, and the two must not multiply to minutes.
_DEFAULT_RETRY: dict[str, float] = {
    "max_retries": 3,
    "retry_timeout": 60.0,
    "backoff_config.init_backoff": 0.1,
    "backoff_config.max_backoff": 3.0,
    "backoff_config.base": 2.0,
}


def _set_retry(retry: dict[str, float], key: str, text: str) -> None:
    found = _DURATION.fullmatch(text)
    plain = key in ("max_retries", "backoff_config.base")
    if found is None or (plain and found[2]) or (key == "max_retries" and not text.isdecimal()):
        raise ConfigError(f"storage_options[{key!r}]", f"cannot be {text!r}")
    retry[key] = float(found[1]) * _SECONDS[found[2]]


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


def _connection_string(given: str, text: str) -> dict[str, str]:
    """Return the settings in an Azure connection string."""
    pairs = dict(part.split("=", 1) for part in text.split(";") if "=" in part)
    values = {key.strip().lower(): value for key, value in pairs.items()}
    if values.get("usedevelopmentstorage", "").lower() == "true":
        return {"use_emulator": "true"}
    names = {
        "accountname": "account_name",
        "accountkey": "account_key",
        "sharedaccesssignature": "sas_token",
        "blobendpoint": "endpoint",
    }
    found = {name: values[key] for key, name in names.items() if values.get(key)}
    if not found.keys() & {"account_name", "endpoint"}:
        raise ConfigError(f"storage_options[{given!r}]", "names neither an account nor an endpoint")
    suffix = values.get("endpointsuffix", "core.windows.net")
    if "endpoint" not in found and suffix != "core.windows.net":
        found["endpoint"] = f"https://{found['account_name']}.blob.{suffix}"
    if found.get("endpoint", "").startswith("http://"):
        found["allow_http"] = "true"
    return found
