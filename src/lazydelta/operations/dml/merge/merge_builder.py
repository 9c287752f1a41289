"""`MergeBuilder`: the clauses of a MERGE, one method each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Self

from lazydelta.operations.dml.merge.clauses import MergeClause, MergeRequest
from lazydelta.operations.dml.merge.merge import merge_rows
from lazydelta.operations.dml.merge.merge_explanation import explain_merge

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from lazydelta.config import Config
    from lazydelta.operations.dml.merge.clauses import Action, ClauseKind
    from lazydelta.operations.dml.merge.merge_explanation import MergeExplanation
    from lazydelta.operations.dml.merge.source_chunks import MergeSource
    from lazydelta.operations.dml.request import DmlResult
    from lazydelta.scan import Where
    from lazydelta.snapshot import SnapshotState
    from lazydelta.store import Store

__all__ = ["MergeBuilder", "MergeClauses"]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClauses:
    """The clauses of a MERGE under construction, in this process or on Spark."""

    request: MergeRequest

    def when_matched_update(
        self,
        set: Mapping[str, Any] | Literal["*"],  # noqa: A002 - SQL's word
        where: Where = None,
        *,
        except_columns: Sequence[str] | str = (),
    ) -> Self:
        """Change columns of rows that match a source row.

        Args:
            set: For each column an expression over both sides, as in `{"fare": "s.fare + t.tip"}`,
                or "*" to take all columns of the source by name.
            where: Which pairs of rows this clause applies to.
            except_columns: Columns that "*" leaves out.
        """
        return self._with("matched", "update", where, set, except_columns)

    def when_matched_delete(self, where: Where = None) -> Self:
        """Delete rows that match a source row.

        Args:
            where: Which pairs of rows this clause applies to.
        """
        return self._with("matched", "delete", where)

    def when_not_matched_insert(
        self,
        values: Mapping[str, Any] | Literal["*"],
        where: Where = None,
        *,
        except_columns: Sequence[str] | str = (),
    ) -> Self:
        """Insert source rows that match no row of the table.

        Args:
            values: For each column an expression over the source, or "*" to take all columns by
                name. Other columns get their default, or NULL.
            where: Which source rows this clause applies to.
            except_columns: Columns that "*" leaves out.
        """
        return self._with("not_matched", "insert", where, values, except_columns)

    def when_not_matched_by_source_update(
        self,
        set: Mapping[str, Any],  # noqa: A002 - SQL's word
        where: Where = None,
    ) -> Self:
        """Change columns of rows that match no source row.

        Args:
            set: For each column an expression over the table's row.
            where: Which rows this clause applies to.
        """
        return self._with("not_matched_by_source", "update", where, set)

    def when_not_matched_by_source_delete(self, where: Where = None) -> Self:
        """Delete rows that match no source row.

        Args:
            where: Which rows this clause applies to.
        """
        return self._with("not_matched_by_source", "delete", where)

    def _with(
        self,
        kind: ClauseKind,
        action: Action,
        where: Where,
        assigned: Mapping[str, Any] | str | None = None,
        except_columns: Sequence[str] | str = (),
    ) -> Self:
        excepted = (except_columns,) if isinstance(except_columns, str) else except_columns
        clause = MergeClause(
            kind=kind,
            action=action,
            where=where,
            assigned={} if assigned is None else assigned,
            except_columns=tuple(excepted),
        )
        request = replace(self.request, clauses=(*self.request.clauses, clause))
        return replace(self, request=request)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeBuilder(MergeClauses):
    """A MERGE under construction. Immutable: each method returns a new builder.

    Clauses of one kind are tried in order; the first whose condition holds applies.
    """

    store: Store
    config: Config
    source: MergeSource
    known: SnapshotState | None = None
    remember: Callable[[SnapshotState | None], None] = lambda _: None

    def execute(self) -> DmlResult:
        """Run the MERGE as one new version; without a change there is no commit.

        Raises:
            MultipleMatchesError: Several source rows change one row of the table.
            ConfigError: There is no clause, or two assignments of one column.
            PredicateError: An expression is not supported, or a name is ambiguous.
            ConstraintViolationError: A new row violates a constraint; nothing is committed.
            SchemaMismatchError: Values of the source do not fit a column.
            AppendOnlyError: The table is append-only, and a clause does not only insert.
            CommitConflictError: A concurrent commit conflicts with this one.
        """
        return merge_rows(
            self.store, self.config, self.source.take(), self.request,
            known=self.known, remember=self.remember,
        )  # fmt: skip

    def explain(self) -> MergeExplanation:
        """Return the plan, from the log and the schema of the source: no row is read."""
        schema = self.source.schema
        return explain_merge(self.store, self.config, schema, self.request, known=self.known)
