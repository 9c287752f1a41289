"""Read a checkpoint of any kind: classic, multi-part, or V2 (JSON or Parquet) with sidecars.

| kind | name | file actions are in |
|---|---|---|
| classic V1 | `n.checkpoint.parquet` | the file itself |
| multi-part V1 | `n.checkpoint.o.p.parquet` | all p files |
| V2 | `n.checkpoint.<uuid>.{json,parquet}` or classic | the file itself, or its sidecars |

A checkpoint is a manifest (protocol, metadata and so on) and leaf files with file actions. The
manifest is read by projection, the leaves are streamed. A corrupt file raises `LogCorruptError`,
so that the caller can fall back to an older checkpoint.
"""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

from lazydelta._parallel import ordered_map
from lazydelta.errors import PathNotAllowedError
from lazydelta.log import tuning
from lazydelta.log.checkpoints.leaf_reader import (
    Actions,
    CheckpointContext,
    Footers,
    Leaf,
    LeafReader,
)
from lazydelta.log.file_names import LOG_DIRECTORY, SIDECAR_DIRECTORY, LogFile
from lazydelta.protocol import MalformedActionError, Sidecar
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.log.commits import CommitReader
    from lazydelta.log.segment import CheckpointFiles
    from lazydelta.protocol.paths import PathResolver
    from lazydelta.store import Store

__all__ = ["Checkpoint", "open_checkpoint"]


class Checkpoint:
    """One opened checkpoint: the table's metadata, and the leaf files with its adds."""

    def __init__(
        self, files: CheckpointFiles, context: CheckpointContext, only: Leaf | None = None
    ) -> None:
        self.files = files
        self._context = context
        self._only = only
        self._manifest = [
            Leaf(file.path, file.size, is_manifest=True, is_part=len(files.files) > 1)
            for file in files.files
        ]
        self._is_json = files.name.endswith(".json")

    @property
    def version(self) -> int:
        """The version of the checkpoint."""
        return self.files.version

    @property
    def is_remote(self) -> bool:
        """Whether reading it takes requests to an object store."""
        return not is_local(self._context.store)

    def actions(self, kinds: Sequence[str], *, first_only: bool) -> Actions:
        """Return the actions of the given kinds; `first_only` stops after one of each."""
        actions: Actions = {kind: [] for kind in kinds}
        if self._is_json:
            # A truncated line may hide an action of these kinds: `find` does not decode the rest.
            self._context.commits.validate(self.files.files[0])
            return self._context.commits.find(self.files.files[0], kinds)
        for leaf in self._manifest:
            with closing(self.open(leaf)) as reader:
                reader.collect(actions, first_only=first_only)
            if first_only and all(actions.values()):
                break
        return actions

    @property
    def inline_actions(self) -> LogFile | None:
        """A JSON manifest, which may hold file actions like a commit; None for Parquet."""
        return self.files.files[0] if self._is_json else None

    def leaves(self) -> list[Leaf]:
        """Return the Parquet files with file actions: itself, its parts or its sidecars."""
        if self._only is not None:
            return [self._only]
        if self._is_json:
            return self._sidecars(self.actions(["sidecar"], first_only=False)["sidecar"])
        if len(self._manifest) == 1:
            actions: Actions = {"sidecar": []}
            with closing(self.open(self._manifest[0])) as manifest:
                manifest.collect(actions, first_only=False)
            return [*self._manifest, *self._sidecars(actions["sidecar"])]
        return self._manifest

    def only(self, leaf: Leaf) -> Checkpoint:
        """Return the checkpoint restricted to one of its leaves."""
        return Checkpoint(self.files, self._context, leaf)

    def readers(self, leaves: Sequence[Leaf] | None = None) -> Iterator[LeafReader]:
        """Open the leaves (by default all) in order; remote ones are opened ahead."""
        selected = self.leaves() if leaves is None else leaves
        context = self._context
        width = 1 if is_local(context.store) else context.config.commit_read_parallelism
        return ordered_map(self.open, selected, width=min(width, tuning.LEAVES_AHEAD))

    def open(self, leaf: Leaf) -> LeafReader:
        """Open one leaf."""
        return LeafReader(leaf, self.version, self._context)

    def _sidecars(self, actions: Sequence[Mapping[str, Any]]) -> list[Leaf]:
        within = f"{LOG_DIRECTORY}/{SIDECAR_DIRECTORY}"
        leaves = []
        for action in actions:
            try:
                sidecar = Sidecar.from_json(action)
                location = self._context.resolver.to_open(sidecar.path, within=within)
            except (MalformedActionError, PathNotAllowedError) as error:
                raise self._context.corrupt(
                    self.files.files[0].path, error, self.version
                ) from error
            leaves.append(Leaf(location.path, sidecar.size_in_bytes, zones=sidecar.zones))
        return leaves


def open_checkpoint(
    store: Store,
    files: CheckpointFiles,
    *,
    commits: CommitReader,
    resolver: PathResolver,
    config: Config,
    footers: Footers | None = None,
) -> Checkpoint:
    """Return a checkpoint; nothing is read yet.

    Args:
        store: The table's store.
        files: The files of the checkpoint.
        commits: Reads a JSON manifest.
        resolver: Resolves the paths of sidecars.
        config: Settings of the engine.
        footers: Cache of parsed footers of manifests. A footer grows with the checkpoint, and can
            take longer to parse than the first batch to decode.
    """
    context = CheckpointContext(
        store=store,
        commits=commits,
        resolver=resolver,
        config=config,
        footers={} if footers is None else footers,
    )
    return Checkpoint(files, context)
