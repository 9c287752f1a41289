"""Where an object-store URL leads: which kind of store, which bucket, which prefix. Pure.

Secrets that came with the URL (a SAS query) leave it here and travel as options from then on, so
that `root` can be shown to anyone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import SplitResult, quote, unquote, urlsplit

from lazydelta.errors import ConfigError, StoreError, redact
from lazydelta.store.object_names import checked_directory

__all__ = ["AZURE_SCHEMES", "GCS_SCHEMES", "S3_SCHEMES", "Address", "parse_address"]

Kind = Literal["azure", "s3", "gcs"]

AZURE_SCHEMES = ("abfs", "abfss", "adl", "az", "azure", "https", "wasb", "wasbs")
S3_SCHEMES = ("s3", "s3a", "s3n")
GCS_SCHEMES = ("gcs", "gs")

_AZURE_HOST = re.compile(
    r"([a-z0-9-]+)\.(?:blob|dfs)\."
    r"(core\.windows\.net|core\.chinacloudapi\.cn|core\.usgovcloudapi\.net|fabric\.microsoft\.com)"
)
_BUCKET = re.compile(r"[A-Za-z0-9$][A-Za-z0-9._$ -]*")
# What may stand in the path of a URI as it is (RFC 3986 pchar, and the slash).
_SAFE = "/!$&'()*+,;=:@~"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """An object-store URL, taken apart."""

    kind: Kind
    bucket: str
    """The bucket or container."""
    prefix: str
    """The table's place in it: plain, without slashes at its ends."""
    root: str
    """The URL without secrets and trailing slash; its path percent-encoded in one way."""
    options: dict[str, str] = field(default_factory=dict, repr=False)
    """Settings that the URL implies; may hold a SAS token."""


def parse_address(url: str) -> Address:
    """Take an object-store URL apart.

    >>> parse_address("wasbs://lake@acct.blob.core.windows.net/my%20trips/").root
    'abfss://lake@acct.dfs.core.windows.net/my%20trips'
    """
    parts = urlsplit(url)
    if parts.fragment:
        raise _refused(url, "has a '#'; in a URL it is written %23")
    if parts.scheme in AZURE_SCHEMES:
        return _azure(url, parts)
    if parts.query:
        raise _refused(url, "has a '?'; in a URL it is written %3F")
    kind: Kind = "s3" if parts.scheme in S3_SCHEMES else "gcs"
    bucket = _bucket(url, parts.netloc)
    prefix, path = _prefix(url, parts.path)
    return Address(kind=kind, bucket=bucket, prefix=prefix, root=f"{parts.scheme}://{bucket}{path}")


def _azure(url: str, parts: SplitResult) -> Address:
    options = _sas(url, parts.query)
    if parts.scheme == "https":
        bucket, _, rest = unquote(parts.path).removeprefix("/").partition("/")
        host = parts.netloc
        if _AZURE_HOST.fullmatch(host) is None:
            raise _refused(url, "is not an Azure storage account; for S3 or GCS use s3:// or gs://")
    else:
        bucket, _, host = (
            parts.netloc.rpartition("@") if "@" in parts.netloc else (parts.netloc, "", "")
        )
        rest = unquote(parts.path)
    options |= _account(url, host) if host else {}
    prefix, path = _prefix(url, quote(rest))
    scheme = {"wasb": "abfs", "wasbs": "abfss"}.get(parts.scheme, parts.scheme)
    bucket = _bucket(url, bucket)
    if scheme == "https":
        root = f"https://{host}/{quote(bucket)}{path}"
    else:
        where = f"{bucket}@{host}" if host else bucket
        root = f"{scheme}://{where.replace('.blob.', '.dfs.')}{path}"
    return Address(kind="azure", bucket=bucket, prefix=prefix, root=root, options=options)


def _account(url: str, host: str) -> dict[str, str]:
    found = _AZURE_HOST.fullmatch(host)
    if found is None:
        raise _refused(url, f"names no Azure storage account: {host!r}")
    account, cloud = found.groups()
    options = {"account_name": account}
    if cloud == "fabric.microsoft.com":
        options["use_fabric_endpoint"] = "true"
    elif cloud != "core.windows.net":
        options["endpoint"] = f"https://{account}.blob.{cloud}"
    return options


def _sas(url: str, query: str) -> dict[str, str]:
    if not query:
        return {}
    if "sig=" not in query:
        raise _refused(url, "has a '?' that starts no SAS token; in a URL it is written %3F")
    return {"sas_token": query}


def _bucket(url: str, name: str) -> str:
    if not _BUCKET.fullmatch(name):
        raise _refused(url, "has no usable bucket or container name")
    return name


def _prefix(url: str, path: str) -> tuple[str, str]:
    """Return the plain prefix, and what to put behind the authority for it."""
    try:
        plain = checked_directory(unquote(path).strip("/"))
    except StoreError as error:
        raise _refused(url, error.reason) from None
    return plain, f"/{quote(plain, safe=_SAFE)}" if plain else ""


def _refused(url: str, reason: str) -> ConfigError:
    return ConfigError("url", f"{redact(url)!r} {reason}")
