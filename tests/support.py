"""Readers of live files that many tests share."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import replace

from hypothesis import settings

from lazydelta import Config, Table
from lazydelta.scan.plan.reference_plan import reference_adds
from lazydelta.scanner import LazyDeltaScanner, LazyScanConfig
from lazydelta.store import MemoryStore


def examples(usual: int, *, long: int) -> settings:
    """Return hypothesis settings: the number of examples, and that for `make test-long`."""
    return settings(max_examples=long if os.environ.get("HYPOTHESIS_PROFILE") == "long" else usual)


def memory_store(*, local: bool = True):
    """Return a memory store; a `local` one is read without prefetch threads."""
    return MemoryStore(root="/memory" if local else "memory://table")


class RoundTripStore(MemoryStore):
    """A remote store that counts round trips: it answers when no further request arrives.

    Requests that a client sends together are answered together, whatever the machine's load.
    """

    native_files = False
    _quiet_seconds = 0.2

    def __init__(self, objects=None):
        super().__init__(objects)
        self.round_trips = 0
        self.is_remote = True  # False answers at once, to build a table
        self._arrival = threading.Condition()
        self._arrived = 0.0

    def list_from(self, directory, *, after=None):
        self._wait()
        return super().list_from(directory, after=after)

    def head(self, path):
        self._wait()
        return super().head(path)

    def read(self, path):
        self._wait()
        return super().read(path)

    def read_ranges(self, path, ranges):
        self._wait()
        return super().read_ranges(path, ranges)

    def write(self, path, data, *, overwrite):
        self._wait()
        super().write(path, data, overwrite=overwrite)

    def _wait(self):
        with self._arrival:
            self._arrived = time.monotonic()
            trip = self.round_trips
            while self.is_remote and self.round_trips == trip:
                left = self._arrived + self._quiet_seconds - time.monotonic()
                if left > 0:
                    self._arrival.wait(left)
                else:  # nothing arrived for a while: this ends the round trip of all that wait
                    self.round_trips += 1
                    self._arrival.notify_all()


def name_of(path, vector):
    """Return a file in `TableBuilder` shorthand: `path` or `path#vector`."""
    return path if vector is None else f"{path}#{vector.lstrip('0')}"


def listed(scan, limit=None):
    """Return the files of a scan in the order they come."""
    found = []
    with scan.file_batches(limit=limit) as batches:
        for batch in batches:
            for row in batch.select(["path", "deletion_vector"]).to_pylist():
                vector = row["deletion_vector"]
                found.append(name_of(row["path"], vector and vector["path_or_inline_dv"]))
    return found


def reverse(store, config=None, limit=None):
    return listed(Table(store, config or Config()).scan(strategy="reverse"), limit)


def forward(store, config=None, limit=None):
    return listed(Table(store, config or Config()).scan(strategy="forward"), limit)


def strict_reverse(store, config=None, limit=None):
    return reverse(store, replace(config or Config(), tripwire="strict"), limit)


def strict_forward(store, config=None, limit=None):
    return forward(store, replace(config or Config(), tripwire="strict"), limit)


def one_by_one(store, config=None, limit=None):
    """List with `files()`, which reads every field."""
    with Table(store, config or Config()).scan().files(limit) as files:
        return [
            name_of(f.path, f.deletion_vector and f.deletion_vector.path_or_inline_dv)
            for f in files
        ]


def reference(store, config=None, limit=None):
    snapshot = Table(store, config or Config()).snapshot()
    found = []
    for batch in reference_adds(snapshot):
        paths = snapshot.resolver.decoded(batch.column("path")).to_pylist()
        vectors = batch.column("deletionVector").to_pylist()
        for path, vector in zip(paths, vectors, strict=True):
            found.append(name_of(path, vector and vector["pathOrInlineDv"]))
    return found[:limit]


def scanner(directory, **wishes):
    """List with `LazyDeltaScanner`, which takes a path."""
    with LazyDeltaScanner(directory, LazyScanConfig(**wishes)).scan_files() as files:
        return [
            name_of(f.path, f.deletion_vector and f.deletion_vector.path_or_inline_dv)
            for f in files
        ]


READERS = {
    "reference": reference,
    "reverse": reverse,
    "forward": forward,
    "strict-reverse": strict_reverse,
    "strict-forward": strict_forward,
    "files": one_by_one,
}
