"""From an address to a store: one small table of schemes, open to more."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping
from urllib.parse import unquote, urlsplit

from lazydelta.errors import ConfigError, redact
from lazydelta.store.address import AZURE_SCHEMES, GCS_SCHEMES, S3_SCHEMES
from lazydelta.store.base import Store
from lazydelta.store.local import LocalStore
from lazydelta.store.objects import ObjectStore

__all__ = ["StoreFactory", "open_store", "register_store"]

StoreFactory = Callable[[str, Mapping[str, str]], Store]
"""Given the URL as the caller wrote it, and the storage options."""

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):/")


def open_store(
    url_or_path: str | os.PathLike[str], storage_options: Mapping[str, str] | None = None
) -> Store:
    """Return the store at an address; nothing is read yet.

    Args:
        url_or_path: A local path, a `file://` URL, or a URL of Azure (`abfss://`, `az://`,
            `https://<account>.blob.core.windows.net/...`, OneLake), S3 (`s3://`, `s3a://`) or
            Google (`gs://`). The path of a URL is percent-decoded once; a local path is not.
        storage_options: Settings of the store, in obstore's names or those of delta-rs and
            adlfs; what is not given is taken from the environment (`AZURE_*`, `AWS_*`,
            `GOOGLE_*`).

    Raises:
        ConfigError: The address or an option is not understood; the text names what is.

    >>> open_store("/data/trips/").root
    '/data/trips'
    """
    if not isinstance(url_or_path, str | os.PathLike):
        kind = type(url_or_path).__name__
        raise ConfigError("url", f"must be a path or an address, not of the type {kind}")
    text = os.fspath(url_or_path)
    if "\0" in text:
        raise ConfigError("url", f"{redact(text)!r} has a null character, which no address has")
    if not isinstance(storage_options, Mapping | None) or not all(
        isinstance(key, str) for key in storage_options or ()
    ):
        raise ConfigError("storage_options", "must be a dict with texts as keys")
    if not text:
        raise ConfigError("url", "is empty; '.' is the current directory")
    found = _SCHEME.match(text)
    if found is None:
        return LocalStore(os.path.expanduser(text))
    scheme = found[1].lower()
    factory = _FACTORIES.get(scheme)
    if factory is None:
        near = difflib.get_close_matches(scheme, _FACTORIES, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known are {', '.join(sorted(_FACTORIES))}"
        raise ConfigError("url", f"no store for {scheme}: in {redact(text)!r}; {hint}")
    return factory(scheme + text[len(scheme) :], storage_options or {})


def register_store(scheme: str, factory: StoreFactory) -> None:
    """Make `open_store` use `factory` for URLs of `scheme`, also in place of a built-in one."""
    if not _SCHEME.fullmatch(f"{scheme}:/"):
        raise ConfigError("scheme", f"{scheme!r} cannot begin a URL")
    _FACTORIES[scheme.lower()] = factory


def _open_file_url(url: str, storage_options: Mapping[str, str]) -> Store:
    del storage_options
    parts = urlsplit(url)
    if parts.netloc not in ("", "localhost"):
        raise ConfigError("url", f"{url!r} names a host; a local table is file:///path")
    # urlsplit takes '?' and '#' off the path; in a file name they are plain characters.
    rest = f"?{parts.query}" if parts.query else ""
    rest += f"#{parts.fragment}" if parts.fragment else ""
    return LocalStore(unquote(parts.path + rest))


_FACTORIES: dict[str, StoreFactory] = {
    "file": _open_file_url,
    **dict.fromkeys((*AZURE_SCHEMES, *S3_SCHEMES, *GCS_SCHEMES), ObjectStore),
}
