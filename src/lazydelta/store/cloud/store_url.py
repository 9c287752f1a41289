"""Parse object-store URLs: provider, bucket and prefix.

A SAS token in the URL becomes an option, so that `root` holds no secret.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, quote, unquote, urlsplit

from lazydelta.errors import ConfigError, StoreError, redact
from lazydelta.store.cloud_schemes import AZURE_SCHEMES, S3_SCHEMES
from lazydelta.store.object_names import validate_directory

__all__ = ["StoreUrl", "parse_store_url"]

Provider = Literal["azure", "s3", "gcs"]


# An account may be in a DNS zone (`acct.z37.blob.storage.azure.net`).
_AZURE_HOST = re.compile(
    r"([a-z0-9-]+)((?:\.z[a-z0-9]+)?)\.(?:blob|dfs)\."
    r"(core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|fabric\.microsoft\.com"
    r"|storage\.azure\.net)"
)
_S3_HOST = re.compile(
    r"(?:([a-z0-9][a-z0-9.-]*)\.)?"
    r"(s3(?:[.-](?:dualstack\.)?([a-z]{2}(?:-[a-z]+)+-\d+))?\.amazonaws\.com(?:\.cn)?)"
)
_R2_HOST = re.compile(r"[a-z0-9]+(?:\.(?:eu|fedramp))?\.r2\.cloudflarestorage\.com")
_GCS_HOST = re.compile(
    r"(?:([a-z0-9][a-z0-9._-]*)\.)?storage\.googleapis\.com|storage\.cloud\.google\.com"
)
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$ -]*")
# Characters of a URI path that need no percent-encoding (RFC 3986 pchar, and the slash).
_UNENCODED = "/!$&'()*+,;=:@~"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreUrl:
    """A parsed object-store URL."""

    provider: Provider
    bucket: str
    """The bucket or container."""
    prefix: str
    """The table's prefix in the bucket: plain, without leading or trailing slash."""
    root: str
    """The URL without secrets and trailing slash, its path percent-encoded canonically."""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """Storage options implied by the URL; may hold a SAS token."""


def parse_store_url(url: str) -> StoreUrl:
    """Parse an object-store URL.

    >>> parse_store_url("wasbs://lake@acct.blob.core.windows.net/my%20trips/").root
    'abfss://lake@acct.dfs.core.windows.net/my%20trips'
    """
    parts = urlsplit(url)
    if parts.fragment:
        raise _invalid_url(url, "has a '#'; encode it as %23")
    if parts.scheme == "https" and (found := _parse_https(url, parts)) is not None:
        return found
    if parts.scheme in AZURE_SCHEMES:
        return _parse_azure(url, _without_privatelink(parts))
    _refuse_query(url, parts)
    provider: Provider = "s3" if parts.scheme in S3_SCHEMES else "gcs"
    bucket = _validate_bucket(url, parts.netloc)
    prefix, path = _parse_prefix(url, parts.path)
    root = f"{parts.scheme}://{bucket}{path}"
    return StoreUrl(provider=provider, bucket=bucket, prefix=prefix, root=root)


def _parse_https(url: str, parts: SplitResult) -> StoreUrl | None:
    """Parse a URL of S3, R2 or GCS, with the bucket in the host or in the path."""
    options: dict[str, str] = {}
    provider: Provider = "s3"
    if s3 := _S3_HOST.fullmatch(parts.netloc):
        bucket, host, region = s3.groups()
        options = {"region": region or "us-east-1"}
        if host not in (f"s3.{region}.amazonaws.com", "s3.amazonaws.com"):
            options["endpoint"] = f"https://{host}"
    elif _R2_HOST.fullmatch(parts.netloc):
        bucket = None
        options = {"region": "auto", "endpoint": f"https://{parts.netloc}"}
    elif gcs := _GCS_HOST.fullmatch(parts.netloc):
        provider, bucket = "gcs", gcs[1]
    else:
        return None
    _refuse_query(url, parts)
    authority, path = f"https://{parts.netloc}", unquote(parts.path).removeprefix("/")
    if bucket is None:
        bucket, _, path = path.partition("/")
        authority = f"{authority}/{bucket}"
    bucket = _validate_bucket(url, bucket)
    prefix, encoded = _parse_prefix(url, quote(path))
    root = f"{authority}{encoded}"
    return StoreUrl(provider=provider, bucket=bucket, prefix=prefix, root=root, options=options)


def _refuse_query(url: str, parts: SplitResult) -> None:
    if parts.query:
        raise _invalid_url(url, "has a '?'; encode it as %3F")


def _without_privatelink(parts: SplitResult) -> SplitResult:
    """Return the URL with the account's ordinary host, which resolves to the private endpoint."""
    return parts._replace(netloc=parts.netloc.replace(".privatelink.", "."))


def _parse_azure(url: str, parts: SplitResult) -> StoreUrl:
    options = _sas_option(url, parts.query)
    if parts.scheme == "https":
        bucket, _, rest = unquote(parts.path).removeprefix("/").partition("/")
        host = parts.netloc
        if _AZURE_HOST.fullmatch(host) is None:
            raise _invalid_url(
                url,
                "is not an Azure storage account, nor a bucket of S3, R2 or GCS; for another "
                "S3-compatible store use s3://BUCKET with the option endpoint",
            )
    else:
        bucket, _, host = (
            parts.netloc.rpartition("@") if "@" in parts.netloc else (parts.netloc, "", "")
        )
        rest = unquote(parts.path)
    options |= _account_options(url, host) if host else {}
    prefix, path = _parse_prefix(url, quote(rest))
    scheme = {"wasb": "abfs", "wasbs": "abfss"}.get(parts.scheme, parts.scheme)
    bucket = _validate_bucket(url, bucket)
    if scheme == "https":
        root = f"https://{host}/{quote(bucket)}{path}"
    else:
        authority = f"{bucket}@{host}" if host else bucket
        root = f"{scheme}://{authority.replace('.blob.', '.dfs.')}{path}"
    return StoreUrl(provider="azure", bucket=bucket, prefix=prefix, root=root, options=options)


def _account_options(url: str, host: str) -> dict[str, str]:
    match = _AZURE_HOST.fullmatch(host)
    if match is None:
        raise _invalid_url(url, f"has a host that is not an Azure storage account: {host!r}")
    account, zone, cloud = match.groups()
    options = {"account_name": account}
    if cloud == "fabric.microsoft.com" and not zone:
        options["use_fabric_endpoint"] = "true"
    elif cloud != "core.windows.net" or zone:
        options["endpoint"] = f"https://{account}{zone}.blob.{cloud}"
    return options


def _sas_option(url: str, query: str) -> dict[str, str]:
    if not query:
        return {}
    if "sig=" not in query:
        raise _invalid_url(url, "has a '?' without a SAS token; encode a '?' of the path as %3F")
    return {"sas_token": query}


def _validate_bucket(url: str, name: str) -> str:
    if not _BUCKET.fullmatch(name):
        raise _invalid_url(url, "has no valid bucket or container name")
    return name


def _parse_prefix(url: str, path: str) -> tuple[str, str]:
    """Return the plain prefix, and the percent-encoded path of the URL."""
    try:
        plain = validate_directory(unquote(path).strip("/"))
    except StoreError as error:
        raise _invalid_url(url, error.reason) from None
    return plain, f"/{quote(plain, safe=_UNENCODED)}" if plain else ""


def _invalid_url(url: str, reason: str) -> ConfigError:
    return ConfigError("url", f"{redact(url)!r} {reason}")
