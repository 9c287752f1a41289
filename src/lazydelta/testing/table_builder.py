"""`TableBuilder`: logs of real tables for tests, commit by commit, in any layout.

    table = TableBuilder(directory, schema={"id": "long", "day": "date"}, partition_by=["day"])
    table.commit("+day=2026-01-01/a +day=2026-01-02/b")
    table.commit("-day=2026-01-01/a").checkpoint("v2-json", parts=3).hint()
    table.commit({"txn": {"appId": "loader", "version": 7}})

It writes the log; the data files that it names need not exist. Nothing is checked: a log that
breaks the protocol is as easy to build as a good one, for both are worth testing. `write`,
`delete` and `read` reach the files themselves.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from lazydelta.log import LOG_DIRECTORY
from lazydelta.testing.checkpoint_builder import CheckpointKind, CheckpointOptions, checkpoint_files
from lazydelta.testing.json_checksum import json_checksum
from lazydelta.testing.log_actions import Action, FileKey, LogState, parse_shorthand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lazydelta.store import Store

__all__ = ["TableBuilder"]

FIRST_COMMIT_MS = 1_700_000_000_000
_READER_FEATURES = ("deletionVectors", "v2Checkpoint")


class TableBuilder:
    """Builds the log of one table.

    Args:
        target: A directory, or a store rooted where the table is to be.
        schema: Delta type by column name, primitives only.
        partition_by: Partition columns.
        configuration: Table properties.
        protocol: The `protocol` action; by default one that allows vectors and V2 checkpoints.
        column_mapping: `name` or `id`: columns get ids and physical names `col-<name>`.
        in_commit_timestamps: Whether commits carry their own time.
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
        """The newest version, -1 before the first commit."""
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
            actions: Actions, or lines of shorthand (see `parse_shorthand`).
            version: The next one by default; any number may be given.
            at_ms: When it was made: in its `commitInfo`, and as the file's time in a directory.
            info: Whether it begins with a `commitInfo`.
            create: Whether it brings protocol and metadata; by default version 0 does.
        """
        version = self.version + 1 if version is None else version
        at = FIRST_COMMIT_MS + 1000 * version if at_ms is None else at_ms
        whole: list[Action] = [self._commit_info(at)] if info else []
        if version == 0 if create is None else create:
            whole += [{"protocol": self.protocol}, {"metaData": self.metadata}]
        for given in actions:
            whole += self._parsed(given) if isinstance(given, str) else [given]
        self.commits[version] = whole
        name = f"{version:020d}.json"
        self.write(name, b"".join(map(_line, whole)))
        if at_ms is not None:
            self.set_time(name, at_ms)
        return self

    def state(self, version: int | None = None) -> LogState:
        """Return what the commits up to a version add up to."""
        last = self.version if version is None else version
        state = LogState()
        for number in sorted(self.commits):
            if number <= last:
                state.apply(self.commits[number])
        return state

    def live(self, version: int | None = None) -> set[FileKey]:
        """Return the live files of a version: path and deletion vector id."""
        return set(self.state(version).adds)

    # --- what shortens the way to a version

    def checkpoint(
        self,
        kind: CheckpointKind = "classic",
        *,
        version: int | None = None,
        **options: Any,
    ) -> Self:
        """Write a checkpoint; `options` are fields of `CheckpointOptions`."""
        version = self.version if version is None else version
        chosen = CheckpointOptions(kind=kind, **options)
        for name, data in checkpoint_files(version, self.state(version), chosen).items():
            self.write(name, data)
        return self

    def hint(self, version: int | None = None, *, checksum: bool = True, **fields: Any) -> Self:
        """Write `_last_checkpoint`, pointing at a version whether or not a checkpoint is there.

        Args:
            version: By default that of the newest checkpoint.
            checksum: Whether it has one.
            fields: Further fields, or others in their place; a wrong `checksum`, say.
        """
        version = self.newest_checkpoint() if version is None else version
        state = self.state(version)
        body: Action = {
            "version": version,
            "size": len(state.file_actions()) + len(state.other_actions()),
            "numOfAddFiles": len(state.adds),
        }
        body |= fields
        if checksum and "checksum" not in fields:
            body["checksum"] = json_checksum(body)
        self.write("_last_checkpoint", json.dumps(body).encode())
        return self

    def crc(self, version: int | None = None, **fields: Any) -> Self:
        """Write the version checksum of a version; `fields` replace what would be right."""
        version = self.version if version is None else version
        state = self.state(version)
        body: Action = {
            "tableSizeBytes": sum(file["size"] for file in state.adds.values()),
            "numFiles": len(state.adds),
            "numMetadata": 1,
            "numProtocol": 1,
            "setTransactions": list(state.transactions.values()),
            "domainMetadata": list(state.domains.values()),
            "metadata": state.metadata,
            "protocol": state.protocol,
        }
        if self._timestamps:
            infos = [a["commitInfo"] for a in self.commits[version] if "commitInfo" in a]
            body["inCommitTimestampOpt"] = infos[0]["inCommitTimestamp"]
        self.write(f"{version:020d}.crc", json.dumps(body | fields).encode())
        return self

    def compact(self, first: int, last: int) -> Self:
        """Write `first.last.compacted.json`: the commits in between, reconciled."""
        state = LogState()
        for version in range(first, last + 1):
            state.apply(self.commits[version])
        name = f"{first:020d}.{last:020d}.compacted.json"
        self.write(name, b"".join(map(_line, state.reconciled())))
        return self

    def clean_up(self, before: int) -> Self:
        """Delete commits, checksums and compactions of versions before one, as retention does.

        Checkpoints stay, and the builder still remembers what was in the commits.
        """
        names = [n for n in self.names() if n[:20].isdigit() and ".checkpoint." not in n]
        self.delete(*(name for name in names if int(name[:20]) < before))
        return self

    def newest_checkpoint(self) -> int:
        """Return the version of the newest checkpoint written."""
        return max(int(name[:20]) for name in self.names() if ".checkpoint." in name)

    # --- files of the log

    def write(self, name: str, data: bytes) -> Self:
        """Write a file of the log, replacing one of that name."""
        if self._store is not None:
            self._store.write(f"{LOG_DIRECTORY}/{name}", data, overwrite=True)
            return self
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return self

    def read(self, name: str) -> bytes:
        """Return a file of the log."""
        if self._store is not None:
            return bytes(self._store.read(f"{LOG_DIRECTORY}/{name}"))
        return self._path(name).read_bytes()

    def delete(self, *names: str) -> Self:
        """Delete files of the log."""
        if self._store is not None:
            self._store.delete([f"{LOG_DIRECTORY}/{name}" for name in names])
            return self
        for name in names:
            self._path(name).unlink(missing_ok=True)
        return self

    def names(self) -> list[str]:
        """Return the names of the files in the log, sorted, without those in directories."""
        if self._store is not None:
            return [
                path.rsplit("/", 1)[-1]
                for batch in self._store.list_from(LOG_DIRECTORY)
                for path in batch.column("path").to_pylist()
            ]
        return sorted(p.name for p in self._path("").iterdir() if p.is_file())

    def sidecars(self) -> list[str]:
        """Return the names of the sidecars, with their directory."""
        if self._store is not None:
            return [
                path.removeprefix(f"{LOG_DIRECTORY}/")
                for batch in self._store.list_from(f"{LOG_DIRECTORY}/_sidecars")
                for path in batch.column("path").to_pylist()
            ]
        directory = self._path("_sidecars")
        return sorted(f"_sidecars/{path.name}" for path in directory.glob("*"))

    def set_time(self, name: str, at_ms: int) -> Self:
        """Set the modification time of a file of the log; stores keep their own time."""
        if self._directory is not None:
            os.utime(self._path(name), ns=(at_ms * 10**6, at_ms * 10**6))
        return self

    # --- parts

    def _path(self, name: str) -> Path:
        if self._directory is None:
            raise ValueError("the table is not built in a directory")
        return self._directory / LOG_DIRECTORY / name

    def _parsed(self, line: str) -> list[Action]:
        named = {name: self._physical(name) for name in self._partitions}
        actions = parse_shorthand(line, named)
        current = {"metaData": self.metadata, "protocol": self.protocol}
        return [
            {kind: current.get(kind, body) for kind, body in action.items()} for action in actions
        ]

    def _physical(self, name: str) -> str:
        return f"col-{name}" if self._mapped else name

    def _commit_info(self, at: int) -> Action:
        info: Action = {"timestamp": at, "operation": "WRITE", "operationParameters": {}}
        if self._timestamps:
            info["inCommitTimestamp"] = at
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


def _line(action: Action) -> bytes:
    return json.dumps(action, separators=(",", ":")).encode() + b"\n"
