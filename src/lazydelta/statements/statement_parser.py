"""Splits SQL statements into their parts: DELETE, UPDATE, INSERT and MERGE.

Expressions and queries stay SQL, for the parser of expressions and for the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import ConfigError
from lazydelta.statements.statement import (
    Assignment,
    Clause,
    Delete,
    Insert,
    Merge,
    Query,
    Update,
)
from lazydelta.statements.statement_cursor import QUERY_STARTS, StatementCursor
from lazydelta.statements.statement_lexer import fail_at

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.statements.statement import Statement

__all__ = ["parse_statement"]

_OTHER_QUERIES = ("(", "describe", "desc", "explain", "pivot", "show", "summarize", "unpivot")
"""What else a statement of an engine that only returns rows may start with."""


def parse_statement(sql: str) -> Statement:
    """Parse one statement; a final semicolon is allowed.

    >>> parse_statement("DELETE FROM `./trips` AS t WHERE t.fare < 0").where
    't.fare < 0'

    Raises:
        QueryError: It is not a statement; the message shows the place and what was expected.
    """
    if not isinstance(sql, str):
        raise ConfigError("statement", f"must be a string, not {type(sql).__name__}")
    parser = _Parser(sql)
    parts: dict[str, Callable[[], Statement]] = {
        "delete": parser.delete,
        "update": parser.update,
        "insert": parser.insert,
        "merge": parser.merge,
    }
    if parser.token.says(*QUERY_STARTS, *_OTHER_QUERIES):
        return Query(sql=parser.query())
    if not parser.token.says(*parts):
        parser.fail("expected a query, DELETE, UPDATE, INSERT or MERGE")
    statement = parts[parser.take().source.lower()]()
    parser.expect_end()
    return statement


class _Parser(StatementCursor):
    """A method for each statement that changes rows."""

    # --- statements, after their first word

    def delete(self) -> Delete:
        self.expect("from")
        return Delete(target=self.table(), where=self.condition("where"))

    def update(self) -> Update:
        target = self.table()
        self.expect("set")
        assignments = self.assignments("where")
        return Update(target=target, assignments=assignments, where=self.condition("where"))

    def insert(self) -> Insert:
        overwrite = self.accept("overwrite")
        if not overwrite and not self.accept("into"):
            self.fail("expected INTO or OVERWRITE")
        self.accept("table")
        target = self.table(with_alias=False)
        partition = self.partition()
        columns = self.column_list()
        by_name = self.accept("by")
        if by_name:
            self.expect("name")
        replace_where = None
        if not overwrite and self.accept("replace"):
            self.expect("where")
            replace_where = self.expression(*QUERY_STARTS)
        rows: tuple[tuple[str, ...], ...] = ()
        query = None
        if self.token.says("values") and not by_name:
            rows = self.values(len(columns) if columns is not None else None)
        elif self.token.says("(", *QUERY_STARTS) and not self.token.says("values"):
            query = self.query()
        else:
            self.fail("expected SELECT" if by_name else "expected VALUES or SELECT")
        if by_name and columns is not None:
            fail_at(self.sql, self.token, "give a list of columns or BY NAME, not both")
        return Insert(
            target=target,
            columns=columns,
            by_name=by_name,
            overwrite=overwrite,
            partition=partition,
            replace_where=replace_where,
            rows=rows,
            query=query,
        )

    def merge(self) -> Merge:
        evolves = self.accept("with")
        if evolves:
            self.expect("schema", "evolution")
        self.expect("into")
        target = self.table()
        self.expect("using")
        source = self.subquery() if self.token.says("(") else self.table()
        self.expect("on")
        return Merge(
            target=target,
            source=source,
            on=self.expression("when"),
            clauses=self.clauses(),
            merge_schema=evolves,
        )

    # --- clauses of MERGE

    def clauses(self) -> tuple[Clause, ...]:
        self.expect("when")
        clauses = [self.clause()]
        while self.accept("when"):
            clauses.append(self.clause())
        return tuple(clauses)

    def clause(self) -> Clause:
        if self.accept("matched"):
            return self.changed("matched")
        if not self.accept("not"):
            self.fail("expected MATCHED or NOT MATCHED")
        self.expect("matched")
        if self.accept("by"):
            if self.accept("source"):
                return self.changed("not_matched_by_source")
            self.expect("target")
        condition = self.condition("and", until="then")
        self.expect("then", "insert")
        return Clause(
            kind="not_matched",
            action="insert",
            condition=condition,
            assignments=None if self.accept("*") else self.inserted(),
        )

    def changed(self, kind: str) -> Clause:
        """Parse the rest of a clause that updates or deletes."""
        condition = self.condition("and", until="then")
        self.expect("then")
        is_source = kind == "not_matched_by_source"
        if self.accept("delete"):
            action, assignments = "delete", None
        elif self.accept("update"):
            self.expect("set")
            action = "update"
            everything = not is_source and self.accept("*")
            assignments = None if everything else self.assignments("when")
        else:
            self.fail("expected UPDATE or DELETE")
        return Clause(kind=kind, action=action, condition=condition, assignments=assignments)  # type: ignore[arg-type]

    def inserted(self) -> tuple[Assignment, ...]:
        """Parse `(columns) VALUES (expressions)`."""
        if not self.token.says("("):
            self.fail("expected '*' or a list of columns")
        columns = self.column_list() or ()
        self.expect("values")
        row = self.row(len(columns))
        return tuple(
            Assignment(column=(column,), expression=expression)
            for column, expression in zip(columns, row, strict=True)
        )
