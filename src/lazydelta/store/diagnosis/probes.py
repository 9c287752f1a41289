"""Requests that show whether a store can serve a table: listing, ranges, conditional puts."""

from __future__ import annotations

import time
import uuid
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from lazydelta.errors import ObjectExistsError, StoreError
from lazydelta.store.cloud.object_store import ObjectStore
from lazydelta.store.diagnosis.resolution import Resolution, resolve
from lazydelta.store.schemes import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lazydelta.store.interface import Store

__all__ = ["Probe", "StoreReport", "check_store"]

_LOG = "_delta_log"
_PROBES = "_lazydelta_check"
# Of a check a quick answer is expected.
_OPTIONS = {"max_retries": "1", "retry_timeout": "10s", "timeout": "20s", "connect_timeout": "5s"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """The outcome of one kind of request."""

    name: str
    status: Literal["ok", "failed", "skipped"]
    milliseconds: float | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreReport:
    """What an address resolves to, and which requests work; it has no secrets."""

    url: str
    resolution: Resolution | None
    """None for a store that is not of Azure, S3 or GCS."""
    probes: tuple[Probe, ...]

    @property
    def ok(self) -> bool:
        """Whether no request failed."""
        return not any(probe.status == "failed" for probe in self.probes)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as a dict."""
        resolved = {"provider": "local"} if self.resolution is None else asdict(self.resolution)
        probes = {probe.name: {**asdict(probe)} for probe in self.probes}
        for probe in probes.values():
            del probe["name"]
        return {"url": self.url, "ok": self.ok, **resolved, "probes": probes}


def check_store(
    url: str, storage_options: Mapping[str, Any] | None = None, *, write: bool = False
) -> StoreReport:
    """Resolve an address and try the requests that tables need.

    Args:
        url: The address of a table, or of a directory for one.
        storage_options: Options of the store.
        write: Whether to create and delete an object in the directory `_lazydelta_check`, which
            shows whether conditional puts work.

    Raises:
        ConfigError: The URL or an option is invalid.
    """
    options = dict(storage_options or {})
    store = open_store(url, options)
    resolution = None
    if isinstance(store, ObjectStore):
        resolution = resolve(url, options)
        store = open_store(url, {**_OPTIONS, **options})
    listing, path = _probe_listing(store)
    probes = [listing]
    if listing.status == "ok":
        probes.append(_probe_latency(store))
    if write and listing.status == "ok":
        probes += _probe_put(store)
    else:
        reason = "listing failed" if listing.status == "failed" else "needs --write"
        probes += [_probe_ranges(store, path), _skipped("conditional put", reason)]
    return StoreReport(url=store.root, resolution=resolution, probes=tuple(probes))


def _probe_listing(store: Store) -> tuple[Probe, str | None]:
    """List the log; returns the path of an object in it that has bytes."""
    found: list[str] = []

    def list_log() -> str:
        page = next(iter(store.list_from(_LOG)), None)
        if page is None:
            return f"no {_LOG} here"
        sizes = page.column("size").to_pylist()
        paths = page.column("path").to_pylist()
        found.extend(path for path, size in zip(paths, sizes, strict=True) if size > 0)
        return f"{len(paths)} objects on the first page of {_LOG}"

    return _timed("list", list_log), found[0] if found else None


def _probe_latency(store: Store) -> Probe:
    """Time a request on a connection that is open: the fastest of three."""
    probes = [_timed("latency", lambda: _end_of_log(store)) for _ in range(3)]
    failed = [probe for probe in probes if probe.status == "failed"]
    return failed[0] if failed else min(probes, key=lambda probe: probe.milliseconds or 0)


def _end_of_log(store: Store) -> str:
    next(iter(store.list_from(_LOG, after="~")), None)
    return "the fastest of three requests"


def _probe_ranges(store: Store, path: str | None) -> Probe:
    if path is None:
        return _skipped("ranges", "no object to read")

    def read() -> str:
        size = store.head(path).size
        first, last = store.read_ranges(path, [(0, 1), (size - 1, size)])
        whole = bytes(store.read(path))
        if bytes(first) + bytes(last) != whole[:1] + whole[-1:]:
            raise StoreError(path, "the ranges are not those of the object")
        return path

    return _timed("ranges", read)


def _probe_put(store: Store) -> list[Probe]:
    """Create an object twice: the second put must fail."""
    path = f"{_PROBES}/{uuid.uuid4().hex}"

    def create() -> str:
        store.write(path, b"first", overwrite=False)
        try:
            store.write(path, b"second", overwrite=False)
        except ObjectExistsError:
            return "an existing object is not replaced"
        raise StoreError(
            path, "the store ignores the condition of a put: concurrent commits would be lost"
        )

    created = _timed("conditional put", create)
    if created.status == "failed":
        ranges = _skipped("ranges", "no object to read")
    else:
        ranges = _probe_ranges(store, path)

    def delete() -> str:
        store.delete([path])
        return path

    return [ranges, created, _timed("delete", delete)]


def _timed(name: str, run: Callable[[], str]) -> Probe:
    start = time.perf_counter()
    try:
        detail, status = run(), "ok"
    except StoreError as error:
        detail, status = str(error), "failed"
    elapsed = round((time.perf_counter() - start) * 1000, 1)
    return Probe(name=name, status=status, milliseconds=elapsed, detail=detail)  # type: ignore[arg-type]


def _skipped(name: str, reason: str) -> Probe:
    return Probe(name=name, status="skipped", detail=reason)
