"""Adapter for the golden pack's `check.py`.

The environment variable `ADAPTER_WAY` selects the strategy.
"""

from __future__ import annotations

import os

from lazydelta import Config, Table
from lazydelta.scan.plan.reference_plan import reference_adds

NAME = "lazydelta"
WAYS = ("auto", "reverse", "forward", "strict", "reference")

_WAY = os.environ.get("ADAPTER_WAY", "auto")


def plan(path, version=None):
    table = Table.open(path, config=Config(tripwire="strict" if _WAY == "strict" else "protocol"))
    snapshot = table.snapshot(version)
    if _WAY == "reference":
        return list(_reference_files(snapshot))
    scan = snapshot.scan(strategy=_WAY if _WAY in ("reverse", "forward") else "auto")
    return [(_plain(file.path), _cardinality(file)) for file in scan.files()]


def snapshot(path, version=None):
    state = Table.open(path).snapshot(version)
    protocol = state.protocol
    files = [
        (_plain(f.path), f.base_row_id, f.default_row_commit_version)
        for f in state.scan().files()
        if f.base_row_id is not None
    ]
    tracked = protocol.writer_features is not None and "rowTracking" in protocol.writer_features
    return {
        "version": state.version,
        "min_reader": protocol.min_reader_version,
        "min_writer": protocol.min_writer_version,
        "reader_features": sorted(protocol.reader_features or ()),
        "writer_features": sorted(protocol.writer_features or ()),
        "partition_columns": list(state.partition_columns),
        "fields": [field.name for field in state.schema],
        "configuration": dict(state.metadata.configuration),
        "txns": {app: txn.version for app, txn in state.transactions().items()},
        "domain_metadata": {n: d.configuration for n, d in state.domain_metadata().items()},
        "row_tracking": files if tracked else [],
        **_timestamp(path, state),
    }


def _timestamp(path, state):
    """Return the in-commit timestamp of the latest commit."""
    if not state.properties.in_commit_timestamps:
        return {}
    newest = Table.open(path).history(limit=1)[0]
    return {"in_commit_timestamp": newest.raw["inCommitTimestamp"]}


def _reference_files(snapshot):
    for batch in reference_adds(snapshot):
        paths = snapshot.resolver.decoded(batch.column("path")).to_pylist()
        vectors = batch.column("deletionVector").to_pylist()
        for path, vector in zip(paths, vectors, strict=True):
            yield _plain(path), None if vector is None else vector["cardinality"]


def _cardinality(file):
    return None if file.deletion_vector is None else file.deletion_vector.cardinality


def _plain(path):
    """Return the absolute path of a `file:` URI, as in the pack."""
    if not path.startswith("file:"):
        return path
    rest = path.removeprefix("file:")
    return "/" + rest.lstrip("/") if rest.startswith("/") else rest


if _WAY != "auto":
    del snapshot  # the same for every strategy: check it once
