"""Clauses of a MERGE as the caller gives them, and the request that they are part of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import orjson

from lazydelta.errors import ConfigError
from lazydelta.expressions import as_predicate
from lazydelta.operations.dml.request import DmlRequest

if TYPE_CHECKING:
    from lazydelta.scan import Where

__all__ = ["Action", "ClauseKind", "MergeClause", "MergeRequest", "shown_sql"]

ClauseKind = Literal["matched", "not_matched", "not_matched_by_source"]
Action = Literal["update", "delete", "insert"]

_PARAMETERS: dict[ClauseKind, str] = {
    "matched": "matchedPredicates",
    "not_matched": "notMatchedPredicates",
    "not_matched_by_source": "notMatchedBySourcePredicates",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeClause:
    """One WHEN clause."""

    kind: ClauseKind
    action: Action
    where: Where = None
    assigned: Mapping[str, Any] | str = field(default_factory=dict)
    """For each column an expression, or "*" for all columns of the source."""
    except_columns: tuple[str, ...] = ()
    """Columns that "*" leaves out."""

    def __post_init__(self) -> None:
        """Refuse assignments of another form."""
        if self.except_columns and self.assigned != "*":
            raise ConfigError("except_columns", 'needs "*": a mapping leaves out columns itself')
        if self.action == "delete" or (isinstance(self.assigned, Mapping) and self.assigned):
            return
        name = "values" if self.action == "insert" else "set"
        if self.assigned != "*" or self.kind == "not_matched_by_source":
            star = "" if self.kind == "not_matched_by_source" else ', or be "*"'
            raise ConfigError(name, f"must map at least one column to an expression{star}")


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeRequest:
    """Options of a MERGE; see `Table.merge` for their meaning."""

    on: Where
    target_alias: str = "t"
    source_alias: str = "s"
    merge_schema: bool = False
    clauses: tuple[MergeClause, ...] = ()
    options: DmlRequest = field(default_factory=DmlRequest)

    def of_kind(self, kind: ClauseKind) -> tuple[MergeClause, ...]:
        """Return the clauses of a kind, in order."""
        return tuple(clause for clause in self.clauses if clause.kind == kind)

    @property
    def only_inserts(self) -> bool:
        """Whether no row of the table can change."""
        return all(clause.action == "insert" for clause in self.clauses)

    @property
    def reads_unchanged_rows(self) -> bool:
        """Whether a row that matches may stay as it is, and so prevent an insert.

        A concurrent commit that deletes such a row, even in a file that is not touched, changes
        the result: the source row would have to be inserted.
        """
        changes_all = any(clause.where is None for clause in self.of_kind("matched"))
        return bool(self.of_kind("not_matched")) and not changes_all

    @property
    def allows_duplicates(self) -> bool:
        """Whether several source rows may match one target row: they all delete it."""
        matched = self.of_kind("matched")
        return [(c.action, c.where) for c in matched] == [("delete", None)]

    def parameters(self) -> dict[str, str]:
        """Return `operationParameters` under the names of Delta Spark."""
        now = self.options.now
        parameters = {"predicate": orjson.dumps([shown_sql(self.on, now)]).decode()}
        for kind, name in _PARAMETERS.items():
            predicates = []
            for clause in self.of_kind(kind):
                where = clause.where
                shown = {} if where is None else {"predicate": shown_sql(where, now)}
                predicates.append({**shown, "actionType": clause.action})
            parameters[name] = orjson.dumps(predicates).decode()
        return parameters


def shown_sql(where: Where, now: int | None = None) -> str:
    """Return a condition as SQL; a string as it is, because Spark has a larger grammar."""
    return where if isinstance(where, str) else str(as_predicate(where, now=now))
