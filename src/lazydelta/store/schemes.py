"""Open the store of a path or URL, by its scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from lazydelta.errors import ConfigError, redact
from lazydelta.store import cloud
from lazydelta.store.cloud_schemes import AZURE_SCHEMES, GCS_SCHEMES, S3_SCHEMES
from lazydelta.store.interface import Store
from lazydelta.store.local_store import LocalStore

__all__ = ["StoreFactory", "open_store", "register_store"]

StoreFactory = Callable[[str, Mapping[str, str]], Store]
"""Called with the caller's URL and the storage options."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def open_store(
    url_or_path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> Store:
    """Return the store of a path or URL; no request is sent.

    Args:
        url_or_path: A local path, a `file://` URL, or a URL of Azure (`abfss://`, `az://`,
            `https://<account>.blob.core.windows.net/...`, OneLake), S3 (`s3://`, `s3a://`) or
            Google (`gs://`). The path of a URL is percent-decoded once; a local path is not.
        storage_options: Options of the store, in the names of obstore, delta-rs or adlfs. The
            environment (`AZURE_*`, `AWS_*`, `GOOGLE_*`) supplies defaults.

    Raises:
        ConfigError: The URL or an option is invalid; the message lists the valid ones.

    >>> open_store("/data/trips/").root
    '/data/trips'
    """
    if not isinstance(url_or_path, str | os.PathLike):
        kind = type(url_or_path).__name__
        raise ConfigError("url", f"must be a path or a URL, not of the type {kind}")
    location = os.fspath(url_or_path)
    if "\0" in location:
        raise ConfigError("url", f"{redact(location)!r} has a null character")
    if not isinstance(storage_options, Mapping | None) or not all(
        isinstance(key, str) for key in storage_options or ()
    ):
        raise ConfigError("storage_options", "must be a dict with string keys")
    if not location:
        raise ConfigError("url", "is empty; '.' is the current directory")
    match = _SCHEME.match(location)
    if match is None:
        return LocalStore(os.path.expanduser(location))
    scheme = match[1].lower()
    factory = _FACTORIES.get(scheme)
    if factory is None:
        raise _unknown_scheme(scheme, location)
    return factory(scheme + location[len(scheme) :], storage_options or {})


def register_store(scheme: str, factory: StoreFactory) -> None:
    """Make `open_store` use `factory` for URLs of `scheme`; replaces a built-in one."""
    if not _SCHEME.fullmatch(f"{scheme}:/"):
        raise ConfigError("scheme", f"{scheme!r} is not a URL scheme")
    _FACTORIES[scheme.lower()] = factory


def _unknown_scheme(scheme: str, location: str) -> ConfigError:
    import difflib  # slow to import

    similar = difflib.get_close_matches(scheme, _FACTORIES, n=1)
    known = ", ".join(sorted(_FACTORIES))
    hint = f"did you mean {similar[0]}?" if similar else f"known are {known}"
    return ConfigError("url", f"no store for {scheme}: in {redact(location)!r}; {hint}")


def _open_file_url(url: str, storage_options: Mapping[str, str]) -> Store:
    del storage_options
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise ConfigError("url", f"{url!r} has a host; a local table is file:///path")
    # urlsplit splits '?' and '#' off the path; in a file name they are plain characters.
    rest = f"?{parts.query}" if parts.query else ""
    rest += f"#{parts.fragment}" if parts.fragment else ""
    return LocalStore(unquote(parts.path + rest))


def _open_cloud_url(url: str, storage_options: Mapping[str, str]) -> Store:
    return cloud.ObjectStore(url, storage_options)


_FACTORIES: dict[str, StoreFactory] = {
    "file": _open_file_url,
    **dict.fromkeys((*AZURE_SCHEMES, *S3_SCHEMES, *GCS_SCHEMES), _open_cloud_url),
}
