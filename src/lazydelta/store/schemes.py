"""Open the store of a path or URL, by its scheme."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from lazydelta.errors import ConfigError, redact
from lazydelta.store import cloud
from lazydelta.store.cloud_schemes import AZURE_SCHEMES, GCS_SCHEMES, S3_SCHEMES
from lazydelta.store.interface import Store
from lazydelta.store.local_store import LocalStore

if TYPE_CHECKING:
    from lazydelta.store.cloud.credentials import Credential

__all__ = ["StoreFactory", "open_store", "register_store"]

StoreFactory = Callable[[str, Mapping[str, str]], Store]
"""Called with the caller's URL and the storage options."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def open_store(
    url_or_path: str | os.PathLike[str],
    storage_options: Mapping[str, Any] | None = None,
    *,
    credential: Credential | None = None,
    store: Any = None,
    like: Store | None = None,
) -> Store:
    """Return the store of a path or URL; no request is sent.

    Args:
        url_or_path: A local path, a `file://` URL, or a URL of Azure (`abfss://`, `az://`,
            `https://<account>.blob.core.windows.net/...`, OneLake), S3 (`s3://`, `s3a://`, https)
            or Google (`gs://`, https). The path of a URL is percent-decoded once; a local path is
            not.
        storage_options: Options of the store, in the names of obstore, delta-rs, adlfs, s3fs,
            gcsfs or pyarrow. The environment (`AZURE_*`, `AWS_*`, `GOOGLE_*`) supplies defaults.
        credential: Returns a token or keys, and is called again before they expire; or a
            credential of azure-identity. Replaces the credentials of the options.
        store: A store of obstore or a filesystem of fsspec that sends the requests.
        like: An open store, whose options and credential are used if the URL is in the same Azure
            account, or in the same bucket of S3 or GCS.

    Raises:
        ConfigError: The URL or an option is invalid; the message lists the valid ones.

    >>> open_store("/data/trips/").root
    '/data/trips'
    """
    location = _location(url_or_path)
    if not isinstance(storage_options, Mapping | None) or not all(
        isinstance(key, str) for key in storage_options or ()
    ):
        raise ConfigError("storage_options", "must be a dict with string keys")
    if store is not None:
        if storage_options or credential is not None:
            raise ConfigError("store", "has its own options and credential: pass it alone")
        return _wrap(location, store)
    if like is not None and (sibling := _sibling(like, location)) is not None:
        return sibling
    match = _SCHEME.match(location)
    scheme = match[1].lower() if match is not None else "file"
    factory = _factory(scheme, location)
    if credential is not None and factory is not _open_cloud_url:
        raise ConfigError("credential", "is only for tables on Azure, S3 or GCS")
    if match is None:
        return LocalStore(os.path.expanduser(location))
    url = scheme + location[len(scheme) :]
    if credential is not None:
        return cloud.ObjectStore(url, storage_options, credential)
    return factory(url, storage_options or {})


def _location(url_or_path: str | os.PathLike[str]) -> str:
    if not isinstance(url_or_path, str | os.PathLike):
        kind = type(url_or_path).__name__
        raise ConfigError("url", f"must be a path or a URL, not of the type {kind}")
    location = os.fspath(url_or_path)
    if "\0" in location:
        raise ConfigError("url", f"{redact(location)!r} has a null character")
    if not location:
        raise ConfigError("url", "is empty; '.' is the current directory")
    return location


def _factory(scheme: str, location: str) -> StoreFactory:
    factory = _FACTORIES.get(scheme)
    if factory is None:
        raise _unknown_scheme(scheme, location)
    return factory


def _wrap(location: str, store: Any) -> Store:
    """Return the store of a location over an object of obstore or fsspec."""
    if type(store).__module__.partition(".")[0] == "obstore":
        return cloud.ObjectStore(location, store=store)
    if any(kind.__module__ == "fsspec.spec" for kind in type(store).__mro__):
        return cloud.FsspecStore(store, location)
    kind = type(store).__name__
    raise ConfigError("store", f"must be a store of obstore or a filesystem of fsspec, not {kind}")


def _sibling(store: Any, url: str) -> Store | None:
    while (inner := getattr(store, "inner", None)) is not None:
        store = inner
    is_cloud_url = _FACTORIES.get(urlsplit(url).scheme) is _open_cloud_url
    return store.sibling(url) if is_cloud_url and hasattr(store, "sibling") else None


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
