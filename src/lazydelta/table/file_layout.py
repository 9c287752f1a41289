"""The methods of `Table` that rewrite files and keep all rows: OPTIMIZE and its kin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.log import open_log_store
from lazydelta.operations import conversion, optimize
from lazydelta.snapshot import load_snapshot

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.operations.conversion import CloneResult
    from lazydelta.operations.optimize import OptimizeResult
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store
    from lazydelta.store.cloud import Credential

__all__ = ["FileLayout"]


class FileLayout:
    """Rewrites files of the table that the subclass has the store of."""

    _store: Store
    _config: Config
    _latest: SnapshotState | None
    _remember: Callable[[SnapshotState | None], None]

    def optimize(
        self,
        where: Where = None,
        *,
        target_size: int | None = None,
        min_file_size: int | None = None,
        max_bytes: int | None = None,
        batch_bytes: int | None = None,
        z_order: Sequence[str] = (),
        cluster: bool | None = None,
        full: bool = False,
        commit_metadata: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> OptimizeResult:
        """Rewrite small files of each partition into files of about the target size.

        Rows do not change, only the files that hold them; deleted rows of rewritten files are
        purged. Memory is bounded by `Config.operation_memory`, and nothing is written to temporary
        disk. Each batch of files is a commit of its own, so an interrupted run keeps what it has
        committed. Concurrent appends never conflict; files that a concurrent commit changes are
        rewritten from their new state.

        Args:
            where: Which partitions to optimize; a predicate over partition columns only.
            target_size: Bytes of a new file; by default as for writes.
            min_file_size: Files from this size on are left alone, unless many of their rows are
                deleted; by default three quarters of the target size.
            max_bytes: Rewrite at most so many bytes in this run, smallest files first.
            batch_bytes: Bytes that are rewritten for one commit.
            z_order: Sort the rows of all selected files along a Z-order curve of these columns, so
                that readers that filter by one of them open few files.
            cluster: Whether to cluster by the table's clustering columns; by default if it has
                any. Only files that are not clustered yet are rewritten, with those that overlap
                with them and are not much larger. `False` compacts small files instead.
            full: Whether to cluster all files again.
            commit_metadata: User metadata for the commits, shown by `history()`.
            dry_run: Whether to return what would be rewritten, and write nothing.
            progress: Receives the number of files that were rewritten since its last call.

        Raises:
            ConfigError: Options contradict each other, or the table.
            PredicateError: `where` uses a column that is not a partition column.
            CommitConflictError: A concurrent commit changed the table's definition.
            UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        """
        request = optimize.OptimizeRequest(
            where=where,
            target_size=target_size,
            min_file_size=min_file_size,
            max_bytes=max_bytes,
            batch_bytes=batch_bytes,
            z_order=(z_order,) if isinstance(z_order, str) else tuple(z_order),
            cluster=cluster,
            full=full,
            commit_metadata=commit_metadata or {},
            dry_run=dry_run,
            progress=progress,
        )
        return optimize.optimize_table(
            self._store, self._config, request, known=self._latest, remember=self._remember
        )

    def purge(
        self,
        where: Where = None,
        *,
        max_bytes: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> OptimizeResult:
        """Rewrite the files that store deleted rows or dropped columns, so that both are gone.

        This is `REORG TABLE ... APPLY (PURGE)`. Files without either are left alone. The old files
        stay in storage until VACUUM deletes them.

        Args:
            where: Which partitions to purge; a predicate over partition columns only.
            max_bytes: Rewrite at most so many bytes in this run, smallest files first.
            commit_metadata: User metadata for the commits, shown by `history()`.
            dry_run: Whether to return what would be rewritten, and write nothing.
            progress: Receives the number of files that were rewritten since its last call.

        Raises the errors of `optimize`.
        """
        request = optimize.OptimizeRequest(
            where=where,
            max_bytes=max_bytes,
            commit_metadata=commit_metadata or {},
            dry_run=dry_run,
            progress=progress,
        )
        return optimize.purge_table(
            self._store, self._config, request, known=self._latest, remember=self._remember
        )

    def clone(
        self,
        url: str | os.PathLike[str],
        *,
        shallow: bool = True,
        version: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        credential: Credential | None = None,
        dry_run: bool = False,
        replace: bool = False,
    ) -> CloneResult:
        """Create a table at another address with the rows of one version of this table.

        A shallow clone refers to the files of this table by absolute paths. It takes no space, but
        it breaks when VACUUM deletes these files, and its readers must allow this table's address
        (`Config.allowed_roots`). A deep clone has copies of the files.

        Args:
            url: The address of the new table, as for `Table.open`.
            shallow: Whether to copy no files.
            version: The version to clone; by default the newest.
            storage_options: Options of the object store of the new table.
            credential: Signs in to that store.
            dry_run: Whether to return what would be cloned, and write nothing.
            replace: Whether a shallow clone replaces a table at that address. The rows, columns and
                properties are those of this table then; older versions stay readable.

        Raises:
            TableExistsError: There is a table at that address, and `replace` is False.
            AppendOnlyError: The table at that address is append-only.
            UnsupportedOperationError: A deep clone over a table.
            UnsupportedFeatureError: The table has row tracking, or a feature that lazydelta cannot
                write.
        """
        target = open_log_store(url, storage_options, self._config, credential=credential)
        return conversion.clone_table(
            load_snapshot(self._store, self._config, version=version),
            target,
            self._config,
            shallow=shallow,
            dry_run=dry_run,
            replace=replace,
        )

    def generate_manifest(self) -> list[str]:
        """Write symlink manifests of the newest version: lists of its files for other engines.

        Hive, Presto, Athena and Redshift Spectrum read Parquet tables by them. A manifest is not
        updated by later writes: generate it again.

        Returns:
            The paths of the manifests below the table, one for each partition.

        Raises:
            UnsupportedOperationError: The table has column mapping, or files with deletion vectors.
        """
        return conversion.write_symlink_manifests(load_snapshot(self._store, self._config))
