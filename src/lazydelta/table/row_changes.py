"""The verbs of `Table` that change rows: DELETE, UPDATE and MERGE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.config import Config, check_options
from lazydelta.operations import dml
from lazydelta.operations.dml import merge
from lazydelta.store import is_local

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lazydelta.operations.dml import DmlResult
    from lazydelta.operations.dml.merge import MergeBuilder
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["RowChanges"]


class RowChanges:
    """Changes rows of the table that the subclass has the store of."""

    _store: Store
    _config: Config
    _latest: SnapshotState | None

    def _remember(self, committed: SnapshotState | None) -> None:
        """Keep the committed snapshot of a remote table; None forgets the last one."""
        if not is_local(self._store):
            self._latest = committed

    def _settings(self, config: Config | None) -> Config:
        if config is None:
            return self._config
        check_options("config", config, Config)
        return config

    def delete(
        self,
        where: Where = None,
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        config: Config | None = None,
    ) -> DmlResult:
        """Delete the matching rows as one new version; all rows without `where`.

        Files whose rows all match are removed without being read where partition values or
        statistics show that. Other rows are marked by deletion vectors if the table enables them
        (`delta.enableDeletionVectors`), else their files are rewritten. Without a match there is
        no commit.

        Args:
            where: Which rows to delete, as for `scan`.
            app_id: With `app_version`: makes the operation idempotent.
            app_version: The version of the application's transaction; it must increase.
            commit_metadata: User metadata for the commit, shown by `history()`.
            dry_run: Whether to return what would happen, and write nothing.
            config: Engine settings of this call; by default those of the table.

        Raises:
            AppendOnlyError: The table is append-only.
            CommitConflictError: A concurrent commit conflicts with this one.
            UnsupportedFeatureError: The table needs a feature that lazydelta cannot write.
        """
        request = dml.DmlRequest(
            where=where,
            app_id=app_id,
            app_version=app_version,
            commit_metadata=commit_metadata or {},
            dry_run=dry_run,
        )
        return dml.delete_rows(
            self._store,
            self._settings(config),
            request,
            known=self._latest,
            remember=self._remember,
        )

    def update(
        self,
        set: Mapping[str, Any],  # noqa: A002 - SQL's word
        where: Where = None,
        *,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        config: Config | None = None,
    ) -> DmlResult:
        """Change columns of the matching rows as one new version; of all rows without `where`.

        Args:
            set: For each column a Spark SQL expression over the old row, or a `lit` or `col`
                expression: `{"amount": "amount * 2", "flag": ld.lit(True)}`.
            where: Which rows to change, as for `scan`.
            app_id: With `app_version`: makes the operation idempotent.
            app_version: The version of the application's transaction; it must increase.
            commit_metadata: User metadata for the commit, shown by `history()`.
            dry_run: Whether to return what would happen, and write nothing.
            config: Engine settings of this call; by default those of the table.

        Raises:
            ConstraintViolationError: A changed row violates a constraint; nothing is committed.

        Raises the errors of `delete` too.
        """
        request = dml.DmlRequest(
            where=where,
            app_id=app_id,
            app_version=app_version,
            commit_metadata=commit_metadata or {},
            dry_run=dry_run,
        )
        return dml.update_rows(
            self._store, self._settings(config), set, request,
            known=self._latest, remember=self._remember,
        )  # fmt: skip

    def merge(
        self,
        source: Any,
        on: Where,
        *,
        target_alias: str = "t",
        source_alias: str = "s",
        merge_schema: bool = False,
        app_id: str | None = None,
        app_version: int | None = None,
        commit_metadata: Mapping[str, Any] | None = None,
        dry_run: bool = False,
        config: Config | None = None,
    ) -> MergeBuilder:
        """Start a MERGE: update, delete and insert rows by comparing them with a source.

        Nothing is read until `execute()`. Rows are matched by the equalities of `on`; NULL matches
        nothing, unless `<=>` compares it. A source that does not fit in `Config.operation_memory`
        is spooled to a temporary file.

        >>> table.merge(rows, "t.id = s.id").when_matched_update("*").when_not_matched_insert("*")
        ... # doctest: +SKIP

        Args:
            source: The rows, in any form that `write` accepts, or a table or scan.
            on: The condition on a row of the table and one of the source.
            target_alias: The name of the table in expressions.
            source_alias: The name of the source in expressions.
            merge_schema: Whether columns of the source that clauses assign are added to the table.
            app_id: With `app_version`: makes the operation idempotent.
            app_version: The version of the application's transaction; it must increase.
            commit_metadata: User metadata for the commit, shown by `history()`.
            dry_run: Whether `execute()` returns what would happen, and writes nothing.
            config: Engine settings of this call; by default those of the table.
        """
        options = dml.DmlRequest(
            app_id=app_id,
            app_version=app_version,
            commit_metadata=commit_metadata or {},
            dry_run=dry_run,
        )
        request = merge.MergeRequest(
            on=on,
            target_alias=target_alias,
            source_alias=source_alias,
            merge_schema=merge_schema,
            options=options,
        )
        return merge.MergeBuilder(
            store=self._store,
            config=self._settings(config),
            source=merge.MergeSource(source),
            request=request,
            known=self._latest,
            remember=self._remember,
        )
