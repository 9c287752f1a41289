"""`TableBuilder`: the Delta log of a test table, commit by commit.

    table = TableBuilder(directory, schema={"id": "long", "day": "date"}, partition_by=["day"])
    table.commit("+day=2026-01-01/a +day=2026-01-02/b")
    table.commit("-day=2026-01-01/a", {"txn": {"appId": "loader", "version": 7}})

It writes the log only; data files need not exist. Nothing is validated, so that tests can build
invalid logs too. `write`, `read` and `delete` access the log files directly.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from lazydelta.log import LOG_DIRECTORY
from lazydelta.testing.log_actions import Action, parse_shorthand, serialize_actions

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.store import Store

__all__ = ["FIRST_COMMIT_MS", "TableBuilder"]

FIRST_COMMIT_MS = 1_700_000_000_000
_READER_FEATURES = ("deletionVectors", "v2Checkpoint")


class TableBuilder:
    """Builds the log of one table.

    Args:
        target: A local directory, or a store rooted at the table.
        schema: Primitive type by column name; `id: long` by default.
        partition_by: Partition columns.
        configuration: Table properties.
        protocol: The `protocol` action; by default with deletion vectors and V2 checkpoints.
        column_mapping: `name` or `id`; columns get ids and physical names `col-<name>`.
        in_commit_timestamps: Whether commits have an `inCommitTimestamp`.
    """

    def __init__(
        self,
        target: Store | str | os.PathLike[str],
        *,
        schema: Mapping[str, str] | None = None,
        partition_by: Sequence[str] = (),
        configuration: Mapping[str, str] | None = None,
        protocol: Action | None = None,
        column_mapping: str | None = None,
        in_commit_timestamps: bool = False,
    ) -> None:
        self._store: Store | None = None
        self._directory: Path | None = None
        if isinstance(target, str | os.PathLike):
            self._directory = Path(target)
        else:
            self._store = target
        self._mapped = column_mapping is not None
        self._timestamps = in_commit_timestamps
        self._partitions = tuple(partition_by)
        self.configuration = dict(configuration or {})
        if column_mapping is not None:
            self.configuration["delta.columnMapping.mode"] = column_mapping
        if in_commit_timestamps:
            self.configuration["delta.enableInCommitTimestamps"] = "true"
        self.protocol = protocol or self._default_protocol()
        self.metadata = self._metadata(schema or {"id": "long"})
        self.commits: dict[int, list[Action]] = {}
        """The actions of each commit written so far, by version."""

    # --- commits

    @property
    def version(self) -> int:
        """The latest version, -1 before the first commit."""
        return max(self.commits, default=-1)

    def commit(
        self,
        *actions: str | Action,
        version: int | None = None,
        at_ms: int | None = None,
        info: bool = True,
        create: bool | None = None,
    ) -> Self:
        """Write a commit.

        Args:
            actions: Actions, or shorthand lines (see `parse_shorthand`).
            version: The next version by default; gaps and overwrites are allowed.
            at_ms: Commit timestamp, also set as modification time in a local directory.
            info: Whether the commit starts with a `commitInfo`.
            create: Whether it has protocol and metadata; by default only version 0 does.
        """
        version = self.version + 1 if version is None else version
        timestamp = FIRST_COMMIT_MS + 1000 * version if at_ms is None else at_ms
        written: list[Action] = [self._commit_info(timestamp)] if info else []
        if version == 0 if create is None else create:
            written += [{"protocol": self.protocol}, {"metaData": self.metadata}]
        for action in actions:
            written += self._parse(action) if isinstance(action, str) else [action]
        self.commits[version] = written
        name = f"{version:020d}.json"
        self.write(name, serialize_actions(written))
        if at_ms is not None:
            self.set_time(name, at_ms)
        return self

    # --- log files

    def write(self, name: str, data: bytes) -> Self:
        """Write or overwrite a log file."""
        if self._store is not None:
            self._store.write(f"{LOG_DIRECTORY}/{name}", data, overwrite=True)
            return self
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return self

    def read(self, name: str) -> bytes:
        """Return the content of a log file."""
        if self._store is not None:
            return bytes(self._store.read(f"{LOG_DIRECTORY}/{name}"))
        return self._path(name).read_bytes()

    def delete(self, *names: str) -> Self:
        """Delete log files."""
        if self._store is not None:
            self._store.delete([f"{LOG_DIRECTORY}/{name}" for name in names])
            return self
        for name in names:
            self._path(name).unlink(missing_ok=True)
        return self

    def names(self) -> list[str]:
        """Return the sorted names of the log files, without those in subdirectories."""
        if self._store is not None:
            return [
                path.rsplit("/", 1)[-1]
                for batch in self._store.list_from(LOG_DIRECTORY)
                for path in batch.column("path").to_pylist()
            ]
        return sorted(p.name for p in self._path("").iterdir() if p.is_file())

    def set_time(self, name: str, at_ms: int) -> Self:
        """Set the modification time of a log file; does nothing for a store."""
        if self._directory is not None:
            os.utime(self._path(name), ns=(at_ms * 10**6, at_ms * 10**6))
        return self

    def _path(self, name: str) -> Path:
        if self._directory is None:
            raise ValueError("the table is in a store, not in a local directory")
        return self._directory / LOG_DIRECTORY / name

    def _parse(self, line: str) -> list[Action]:
        names = {name: self._physical(name) for name in self._partitions}
        actions = parse_shorthand(line, names)
        current = {"metaData": self.metadata, "protocol": self.protocol}
        return [
            {kind: current.get(kind, body) for kind, body in action.items()} for action in actions
        ]

    def _physical(self, name: str) -> str:
        return f"col-{name}" if self._mapped else name

    def _commit_info(self, timestamp: int) -> Action:
        info: Action = {"timestamp": timestamp, "operation": "WRITE", "operationParameters": {}}
        if self._timestamps:
            info["inCommitTimestamp"] = timestamp
        return {"commitInfo": info}

    def _default_protocol(self) -> Action:
        readers = [*_READER_FEATURES, *(["columnMapping"] if self._mapped else [])]
        writers = [*readers, *(["inCommitTimestamp"] if self._timestamps else [])]
        return {
            "minReaderVersion": 3,
            "minWriterVersion": 7,
            "readerFeatures": readers,
            "writerFeatures": writers,
        }

    def _metadata(self, schema: Mapping[str, str]) -> Action:
        fields = []
        for number, (name, kind) in enumerate(schema.items(), 1):
            metadata: Action = {}
            if self._mapped:
                metadata["delta.columnMapping.id"] = number
                metadata["delta.columnMapping.physicalName"] = self._physical(name)
            fields.append({"name": name, "type": kind, "nullable": True, "metadata": metadata})
        return {
            "id": "00000000-0000-0000-0000-000000000000",
            "format": {"provider": "parquet", "options": {}},
            "schemaString": json.dumps({"type": "struct", "fields": fields}),
            "partitionColumns": list(self._partitions),
            "configuration": self.configuration,
            "createdTime": FIRST_COMMIT_MS,
        }
