"""CLONE: a table with the rows of one version of another.

A shallow clone refers to the files of its source by absolute paths; a deep one has copies of them.
"""

from __future__ import annotations

import dataclasses
import time
import uuid
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._parallel import ordered_map
from lazydelta.checkpoint import post_commit_hooks
from lazydelta.errors import (
    AppendOnlyError,
    TableNotFoundError,
    UnsupportedFeatureError,
    UnsupportedOperationError,
)
from lazydelta.formats import DeletionVectorGroup
from lazydelta.operations.conversion.convert import check_no_table
from lazydelta.operations.dml.row_deletion import removes_of, total_size
from lazydelta.operations.uncommitted_files import UncommittedFiles
from lazydelta.operations.writable_table import validate_writable
from lazydelta.protocol.features import (
    supported_features,
    unsupported_error,
    unwritable_features,
    with_features,
)
from lazydelta.replay import file_keys
from lazydelta.replay.skipping import Pruner
from lazydelta.scan.plan import live_adds
from lazydelta.scan.read import FileStores, threads_for
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array, build_scalar
from lazydelta.snapshot import load_snapshot
from lazydelta.store import open_output
from lazydelta.transaction import ADDS, Reads, Transaction, commit

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["CloneResult", "clone_table"]

_OF_ONE_LOG = (
    "delta.inCommitTimestampEnablementVersion",
    "delta.inCommitTimestampEnablementTimestamp",
    "delta.requireCheckpointProtectionBeforeVersion",
)
"""Properties that refer to versions of the source."""
_TRACKING = "delta.rowTracking"
_BLOCK = 8 << 20
_STRING = PrimitiveType("string")
_TRUE = build_scalar(True, PrimitiveType("boolean"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CloneResult:
    """Result of a clone."""

    table: str
    """The clone."""
    version: int
    """Its version: 0, unless it replaces a table."""
    source: str
    source_version: int
    files: int
    bytes: int
    """Total size of its data files."""
    files_copied: int = 0
    dry_run: bool = False
    """Whether nothing was written."""
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for JSON."""
        return asdict(self)


def clone_table(
    snapshot: SnapshotState,
    store: Store,
    config: Config,
    *,
    shallow: bool,
    dry_run: bool,
    replace: bool = False,
) -> CloneResult:
    """Commit a version of a table with the files of a snapshot.

    Args:
        snapshot: The version to clone.
        store: The store of the clone.
        config: Settings of the engine.
        shallow: Whether the clone refers to the files of the source, and copies none.
        dry_run: Whether to write nothing.
        replace: Whether a table at the new address is replaced. Its older versions stay.

    Raises:
        TableExistsError: There is a table at the new address, and `replace` is False.
        AppendOnlyError: That table is append-only.
        UnsupportedOperationError: A deep clone over a table.
        UnsupportedFeatureError: The table has row tracking, or a feature that lazydelta cannot
            write.
    """
    _check_source(snapshot)
    existing = None
    if replace:
        existing = _replaceable(store, config, shallow=shallow, dry_run=dry_run)
    else:
        check_no_table(store, config, "clone")
    adds = _live_files(snapshot)
    facts = {
        "table": store.root,
        "source": snapshot.store.root,
        "source_version": snapshot.version,
        "files": adds.num_rows,
        "bytes": total_size(adds),
    }
    if dry_run:
        version = 0 if existing is None else existing.version + 1
        return CloneResult(**facts, version=version, dry_run=True)
    with UncommittedFiles(store, None) as files:
        copied = 0
        if shallow:
            adds = _with(adds, _absolute(snapshot, adds))
        else:
            copied = _copy_all(snapshot, adds, store, files)
        transaction = _transaction(snapshot, adds, shallow=shallow, copied=copied)
        if existing is not None:
            transaction = _replacing(transaction, snapshot, existing)
        done = commit(
            transaction, store=store, config=config, base=existing,
            hooks=post_commit_hooks(config), observer=files,
        )  # fmt: skip
    return CloneResult(**facts, version=done.version, files_copied=copied, warnings=done.warnings)


def _check_source(snapshot: SnapshotState) -> None:
    if features := unwritable_features(snapshot.protocol):
        raise unsupported_error(snapshot.store.root, features, "write")
    if snapshot.properties.row_tracking:
        reason = "a clone does not keep row ids yet"
        raise UnsupportedFeatureError(snapshot.store.root, ("rowTracking",), "write", reason)


def _transaction(
    snapshot: SnapshotState, adds: pa.Table, *, shallow: bool, copied: int
) -> Transaction:
    configuration = snapshot.metadata.configuration.items()
    metadata = dataclasses.replace(
        snapshot.metadata,
        id=str(uuid.uuid4()),
        created_time=time.time_ns() // 1_000_000,
        configuration={key: value for key, value in configuration if key not in _OF_ONE_LOG},
    )
    domains = snapshot.domain_metadata().values()
    size = total_size(adds)
    return Transaction(
        operation="CLONE",
        parameters={
            "source": snapshot.store.root,
            "sourceVersion": snapshot.version,
            "isShallow": "true" if shallow else "false",
        },
        metrics={
            "sourceTableSize": size,
            "sourceNumOfFiles": adds.num_rows,
            "numRemovedFiles": 0,
            "numCopiedFiles": copied,
            "removedFilesSize": 0,
            "copiedFilesSize": size if copied else 0,
        },
        adds=_with(adds, {"dataChange": pa.repeat(_TRUE, adds.num_rows)}),
        protocol=snapshot.protocol,
        metadata=metadata,
        domains=tuple(d for d in domains if not d.removed and d.domain != _TRACKING),
    )


def _live_files(snapshot: SnapshotState) -> pa.Table:
    batches = [batch.select(ADDS.names) for batch in live_adds(snapshot, ADDS, Pruner())]
    return pa.Table.from_batches(batches, ADDS).combine_chunks()


def _with(adds: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    arrays = [columns.get(name, adds.column(name)) for name in ADDS.names]
    return pa.Table.from_arrays(arrays, schema=ADDS)


# --- over a table


def _replaceable(
    store: Store, config: Config, *, shallow: bool, dry_run: bool
) -> SnapshotState | None:
    """Return the table to replace; None if there is none."""
    try:
        existing = load_snapshot(store, config)
    except TableNotFoundError:
        return None
    if not shallow:
        cure = "clone it shallow, or to a path without a table"
        raise UnsupportedOperationError("a deep clone over a table", cure)
    validate_writable(existing, dry_run=dry_run)
    if existing.properties.append_only:
        raise AppendOnlyError(store.root, "CLONE")
    return existing


def _replacing(
    transaction: Transaction, source: SnapshotState, existing: SnapshotState
) -> Transaction:
    """Return the transaction on an existing table: it keeps its id, features and common files."""
    assert transaction.metadata is not None  # noqa: S101 - every clone has it
    old, new = _live_files(existing), transaction.adds
    old_keys, new_keys = (
        file_keys(
            existing.resolver.keys(files.column("path").combine_chunks()),
            files.column("deletionVector").combine_chunks(),
        )
        for files in (old, new)
    )
    removed = old.filter(pc.invert(pc.is_in(old_keys, value_set=new_keys)))
    features = supported_features(source.protocol) - supported_features(existing.protocol)
    protocol = with_features(existing.protocol, features)
    cloned = {domain.domain for domain in transaction.domains} | {_TRACKING}
    return dataclasses.replace(
        transaction,
        metrics={
            **transaction.metrics,
            "numRemovedFiles": removed.num_rows,
            "removedFilesSize": total_size(removed),
        },
        adds=new.filter(pc.invert(pc.is_in(new_keys, value_set=old_keys))),
        removes=removes_of([removed]),
        reads=Reads(whole_table=True),
        protocol=None if protocol == existing.protocol else protocol,
        metadata=dataclasses.replace(transaction.metadata, id=existing.metadata.id),
        domains=(
            *transaction.domains,
            *(
                dataclasses.replace(domain, removed=True)
                for name, domain in existing.domain_metadata().items()
                if name not in cloned
            ),
        ),
    )


# --- shallow


def _absolute(snapshot: SnapshotState, adds: pa.Table) -> dict[str, pa.Array]:
    """Return absolute paths of files and of their deletion vectors."""
    uris = snapshot.resolver.uris(adds.column("path").combine_chunks()).to_pylist()
    is_local = snapshot.store.root.startswith("/")
    paths = [f"file://{quote(uri)}" if is_local and uri.startswith("/") else uri for uri in uris]
    vectors = adds.column("deletionVector").combine_chunks()
    if vectors.null_count == len(vectors):
        return {"path": build_array(paths, _STRING)}
    moved = [None if v is None else _absolute_vector(snapshot, v) for v in vectors.to_pylist()]
    return {
        "path": build_array(paths, _STRING),
        "deletionVector": pa.array(moved, vectors.type),
    }


def _absolute_vector(snapshot: SnapshotState, vector: Mapping[str, Any]) -> Mapping[str, Any]:
    if vector["storageType"] != "u":
        return vector
    name = DeletionVectorGroup.file_name(vector["pathOrInlineDv"])
    root = snapshot.store.root.rstrip("/")
    prefix = f"file://{quote(root)}" if root.startswith("/") else root
    return {**vector, "storageType": "p", "pathOrInlineDv": f"{prefix}/{quote(name)}"}


# --- deep


def _copy_all(
    snapshot: SnapshotState, adds: pa.Table, store: Store, files: UncommittedFiles
) -> int:
    """Copy data files and deletion vectors to the same relative paths; return their number."""
    paths = snapshot.resolver.keys(adds.column("path").combine_chunks()).to_pylist()
    vectors = [v for v in adds.column("deletionVector").to_pylist() if v is not None]
    names = [*paths, *_vector_files(snapshot, vectors)]
    outside = next((name for name in names if name.startswith("/") or "://" in name), None)
    if outside is not None:
        operation = f"a deep clone of a table with files elsewhere, as {outside},"
        raise UnsupportedOperationError(operation, "clone it shallow, or copy its rows")
    stores = FileStores(snapshot.store, snapshot.config)
    copy = partial(_copy, stores, snapshot, store, files)
    width = min(threads_for(snapshot.store, None), threads_for(store, None))
    return sum(1 for _ in ordered_map(copy, dict.fromkeys(names), width=width))


def _vector_files(snapshot: SnapshotState, vectors: Sequence[Mapping[str, Any]]) -> list[str]:
    found = []
    for vector in vectors:
        if vector["storageType"] == "u":
            found.append(DeletionVectorGroup.file_name(vector["pathOrInlineDv"]))
        elif vector["storageType"] == "p":
            path = build_array([vector["pathOrInlineDv"]], _STRING)
            found.append(unquote(snapshot.resolver.keys(path)[0].as_py()))
    return list(dict.fromkeys(found))


def _copy(
    stores: FileStores, snapshot: SnapshotState, target: Store, files: UncommittedFiles, path: str
) -> None:
    location = snapshot.resolver.to_open(path, decoded=True)
    with closing(stores.store(location).open_input(location.path)) as source:
        output = open_output(target, path)
        try:
            while data := source.read(_BLOCK):
                output.file.write(data)
            output.publish()
        except BaseException:
            output.discard()
            raise
    files.add_paths([path])
