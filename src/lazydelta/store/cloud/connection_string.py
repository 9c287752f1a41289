"""Azure connection strings: with an account key, a shared access signature, or the emulator."""

from __future__ import annotations

from urllib.parse import urlsplit

from lazydelta.errors import ConfigError

__all__ = ["parse_connection_string"]

_NAMES = {
    "accountname": "account_name",
    "accountkey": "account_key",
    "sharedaccesssignature": "sas_token",
    "blobendpoint": "endpoint",
}


def parse_connection_string(setting: str, connection_string: str) -> dict[str, str]:
    """Return the configuration in an Azure connection string.

    >>> text = "BlobEndpoint=https://acct.blob.core.windows.net/;SharedAccessSignature=?sv=1"
    >>> parse_connection_string("connection_string", text)["account_name"]
    'acct'
    """
    pairs = dict(part.split("=", 1) for part in connection_string.split(";") if "=" in part)
    values = {key.strip().lower(): value.strip() for key, value in pairs.items()}
    if values.get("usedevelopmentstorage", "").lower() == "true":
        return {"use_emulator": "true"}
    config = {name: values[key] for key, name in _NAMES.items() if values.get(key)}
    if "sas_token" in config:
        config["sas_token"] = config["sas_token"].removeprefix("?")
    if "endpoint" in config:
        config["endpoint"] = config["endpoint"].rstrip("/")
        config.setdefault("account_name", _account_of(config["endpoint"]))
    if not config.get("account_name"):
        raise ConfigError(setting, "has neither an account nor an endpoint")
    suffix = values.get("endpointsuffix", "core.windows.net")
    if "endpoint" not in config and suffix != "core.windows.net":
        config["endpoint"] = f"https://{config['account_name']}.blob.{suffix}"
    if config.get("endpoint", "").startswith("http://"):
        config["allow_http"] = "true"
    return config


def _account_of(endpoint: str) -> str:
    """Return the account of an endpoint: from its host, or from the path of an emulator."""
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    return parts.path.strip("/").partition("/")[0] or host.partition(".")[0]
