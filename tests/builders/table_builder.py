"""`TableBuilder` with checkpoints, hints, checksums and compacted commits.

table.commit("-day=2026-01-01/a").checkpoint("v2-json", parts=3).hint()
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Self

from lazydelta import testing
from lazydelta.log import LOG_DIRECTORY
from lazydelta.testing.log_actions import serialize_actions
from tests.builders.checkpoint_writer import CheckpointKind, CheckpointOptions, checkpoint_files
from tests.builders.json_checksum import json_checksum
from tests.builders.log_state import FileKey, LogState

if TYPE_CHECKING:
    from lazydelta.testing.log_actions import Action

__all__ = ["TableBuilder"]


class TableBuilder(testing.TableBuilder):
    """Builds the log of one table, in every layout the protocol allows."""

    def state(self, version: int | None = None) -> LogState:
        """Return the table state at a version."""
        last = self.version if version is None else version
        state = LogState()
        for number in sorted(self.commits):
            if number <= last:
                state.apply(self.commits[number])
        return state

    def live(self, version: int | None = None) -> set[FileKey]:
        """Return the live files of a version: path and deletion vector id."""
        return set(self.state(version).adds)

    def checkpoint(
        self,
        kind: CheckpointKind = "classic",
        *,
        version: int | None = None,
        **options: Any,
    ) -> Self:
        """Write a checkpoint; `options` are fields of `CheckpointOptions`."""
        version = self.version if version is None else version
        layout = CheckpointOptions(kind=kind, **options)
        for name, data in checkpoint_files(version, self.state(version), layout).items():
            self.write(name, data)
        return self

    def hint(self, version: int | None = None, *, checksum: bool = True, **fields: Any) -> Self:
        """Write `_last_checkpoint`; the version need not have a checkpoint.

        Args:
            version: By default that of the latest checkpoint.
            checksum: Whether the hint has a checksum.
            fields: Other fields; they replace the defaults, `checksum` included.
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
        """Write a version checksum file; `fields` replace the correct ones."""
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
        """Write the log compaction file of a range of versions."""
        state = LogState()
        for version in range(first, last + 1):
            state.apply(self.commits[version])
        name = f"{first:020d}.{last:020d}.compacted.json"
        self.write(name, serialize_actions(state.reconciled()))
        return self

    def clean_up(self, before: int) -> Self:
        """Delete the commits, checksums and compactions before a version, as log cleanup does.

        Checkpoints stay, and `state` still knows the deleted commits.
        """
        names = [n for n in self.names() if n[:20].isdigit() and ".checkpoint." not in n]
        self.delete(*(name for name in names if int(name[:20]) < before))
        return self

    def newest_checkpoint(self) -> int:
        """Return the version of the latest checkpoint."""
        return max(int(name[:20]) for name in self.names() if ".checkpoint." in name)

    def sidecars(self) -> list[str]:
        """Return the sidecar paths, relative to the log."""
        if self._store is not None:
            return [
                path.removeprefix(f"{LOG_DIRECTORY}/")
                for batch in self._store.list_from(f"{LOG_DIRECTORY}/_sidecars")
                for path in batch.column("path").to_pylist()
            ]
        directory = self._path("_sidecars")
        return sorted(f"_sidecars/{path.name}" for path in directory.glob("*"))
