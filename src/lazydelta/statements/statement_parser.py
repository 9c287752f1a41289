"""Splits SQL statements into their parts: DELETE, UPDATE, INSERT and MERGE.

Expressions and queries stay SQL, for the parser of expressions and for the engine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from lazydelta.errors import ConfigError
from lazydelta.statements.statement import (
    Assignment,
    Clause,
    Delete,
    Insert,
    Merge,
    Query,
    Subquery,
    TableName,
    Update,
)
from lazydelta.statements.statement_lexer import Token, fail_at, next_token, tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from lazydelta.statements.statement import Statement

__all__ = ["parse_statement"]

_QUERY_STARTS = ("select", "with", "from", "values", "table")
_OTHER_QUERIES = ("(", "describe", "desc", "explain", "pivot", "show", "summarize", "unpivot")
"""What else a statement of an engine that only returns rows may start with."""
_NO_ALIAS = (
    *("as", "by", "from", "join", "on", "overwrite", "select", "set", "table", "using", "values"),
    *("when", "where", "with"),
)
"""Keywords that may follow a table, so they are no alias of it."""
_ONE_STATEMENT = "give one statement: nothing may follow the ';'"


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
    if parser.token.says(*_QUERY_STARTS, *_OTHER_QUERIES):
        return Query(sql=parser.query())
    if not parser.token.says(*parts):
        parser.fail("expected a query, DELETE, UPDATE, INSERT or MERGE")
    statement = parts[parser.take().source.lower()]()
    parser.expect_end()
    return statement


class _Parser:
    """One pass over the tokens; a method for each part of a statement."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self.token = next_token(sql, 0, "spark")

    # --- tokens

    def take(self) -> Token:
        token = self.token
        self.token = next_token(self.sql, token.end, "spark")
        return token

    def accept(self, *words: str) -> bool:
        """Consume one of these keywords or signs if it is next."""
        if not self.token.says(*words):
            return False
        self.take()
        return True

    def expect(self, *words: str) -> None:
        """Consume these keywords or signs, in this order."""
        for word in words:
            if not self.accept(word):
                self.fail(f"expected {_shown(word)}")

    def expect_end(self) -> None:
        if self.accept(";") and self.token.kind != "end":
            fail_at(self.sql, self.token, _ONE_STATEMENT)
        if self.token.kind != "end":
            self.fail("expected the end of the statement")

    def fail(self, reason: str) -> NoReturn:
        token = self.token
        found = "the end" if token.kind == "end" else repr(token.source[:40])
        fail_at(self.sql, token, f"{reason}, but found {found} at character {token.start + 1}")

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
        columns = self.column_list()
        by_name = self.accept("by")
        if by_name:
            self.expect("name")
        rows: tuple[tuple[str, ...], ...] = ()
        query = None
        if self.token.says("values") and not by_name:
            rows = self.values(len(columns) if columns is not None else None)
        elif self.token.says("(", *_QUERY_STARTS) and not self.token.says("values"):
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

    # --- parts

    def table(self, *, with_alias: bool = True) -> TableName:
        """Parse a table: a name, or an address in backticks; then its alias."""
        if not self.token.is_name or self.token.says(*_NO_ALIAS):
            self.fail("expected a table: a name, or a path in `backticks`")
        first = self.take()
        parts = [first]
        while self.accept("."):
            parts.append(self.name("a name"))
        alias = self.alias() if with_alias else None
        if len(parts) == 2 and first.says("delta") and parts[1].kind == "quoted":
            return TableName(name=None, address=parts[1].name, alias=alias)
        name = ".".join(part.name for part in parts)
        address = name if len(parts) == 1 and first.kind == "quoted" else None
        return TableName(name=name, address=address, alias=alias)

    def alias(self) -> str | None:
        is_required = self.accept("as")
        if self.token.is_name and not self.token.says(*_NO_ALIAS):
            return self.take().name
        if is_required:
            self.fail("expected an alias")
        return None

    def subquery(self) -> Subquery:
        """Parse `(query) [AS] alias [(columns)]`."""
        start = self.take().end
        closing = self.end_of_query(start)
        sql = self.sql[start : closing.start].strip()
        self.token = next_token(self.sql, closing.end, "spark")
        alias = self.alias()
        columns = self.column_list() if alias is not None else None
        return Subquery(sql=sql, alias=alias, columns=columns)

    def end_of_query(self, start: int) -> Token:
        """Return the parenthesis that closes a query, which has the strings of the engine."""
        depth = 0
        for token in tokens(self.sql, "engine", start):
            if depth == 0 and token.says(")"):
                if not self.sql[start : token.start].strip():
                    fail_at(self.sql, token, f"expected a query at character {token.start + 1}")
                return token
            depth += token.says("(") - token.says(")")
        return self.unclosed(start - 1)

    def unclosed(self, start: int) -> NoReturn:
        token = Token("sign", "(", start)
        fail_at(self.sql, token, f"( at character {start + 1} is not closed")

    def query(self) -> str:
        """Consume the rest of the statement as a query."""
        start = self.token.start
        end = len(self.sql)
        for token in tokens(self.sql, "engine", start):
            if token.says(";"):
                end = token.start
                self.token = next_token(self.sql, token.end, "engine")
                if self.token.kind != "end":
                    fail_at(self.sql, self.token, _ONE_STATEMENT)
                break
        self.token = Token("end", "", len(self.sql))
        return self.sql[start:end].strip()

    def name(self, what: str) -> Token:
        if not self.token.is_name:
            self.fail(f"expected {what}")
        return self.take()

    def column_list(self) -> tuple[str, ...] | None:
        """Parse `(a, b)`; None if none is next."""
        if not self.token.says("("):
            return None
        inner = next_token(self.sql, self.token.end, "spark")
        if inner.says("(", *_QUERY_STARTS):
            return None  # a query in parentheses
        self.take()
        columns = [self.name("a column").name]
        while self.accept(","):
            if self.token.name.lower() in map(str.lower, columns):
                fail_at(self.sql, self.token, f"names the column {self.token.name!r} twice")
            columns.append(self.name("a column").name)
        if not self.accept(")"):
            self.fail("expected ',' or ')'")
        return tuple(columns)

    def values(self, width: int | None) -> tuple[tuple[str, ...], ...]:
        """Parse the rows of VALUES, all of one width."""
        self.expect("values")
        rows = [self.row(width)]
        while self.accept(","):
            rows.append(self.row(len(rows[0])))
        return tuple(rows)

    def row(self, width: int | None) -> tuple[str, ...]:
        start = self.token
        self.expect("(")
        row = [self.expression(",")]
        while self.accept(","):
            row.append(self.expression(","))
        self.expect(")")
        if width is not None and len(row) != width:
            reason = f"expected {width} values, but found {len(row)}"
            fail_at(self.sql, start, f"{reason} at character {start.start + 1}")
        return tuple(row)

    def assignments(self, until: str) -> tuple[Assignment, ...]:
        """Parse `column = expression, ...`."""
        assignments = [self.assignment(until)]
        while self.accept(","):
            assignments.append(self.assignment(until))
        return tuple(assignments)

    def assignment(self, until: str) -> Assignment:
        path = [self.name("a column").name]
        while self.accept("."):
            path.append(self.name("a field").name)
        self.expect("=")
        return Assignment(column=tuple(path), expression=self.expression(",", until))

    def condition(self, keyword: str, *, until: str = ";") -> str | None:
        """Parse an expression after a keyword; None if it is not next."""
        return self.expression(until) if self.accept(keyword) else None

    def expression(self, *until: str) -> str:
        """Consume an expression: all up to a keyword or sign outside parentheses and CASE."""
        start = end = self.token.start
        depth: list[int] = []
        cases = 0
        is_field = False  # after a dot every word is a name
        while self.token.kind != "end" and not self.token.says(";"):
            token = self.token
            if not depth and (token.says(")") or (token.says(*until) and not (cases or is_field))):
                break
            if token.says("select") and end and self.sql[end - 1] == "(":
                self.fail("expected an expression without a query")
            if token.says("(", "[", "{"):
                depth.append(token.start)
            elif token.says(")", "]", "}") and depth:
                depth.pop()
            elif not is_field:
                cases = max(cases + token.says("case") - token.says("end"), 0)
            is_field = token.says(".")
            end = self.take().end
        if depth:
            self.fail(f"expected what closes {self.sql[depth[-1]]!r} at character {depth[-1] + 1}")
        if end == start:
            self.fail("expected an expression")
        return self.sql[start:end]


def _shown(word: str) -> str:
    return word.upper() if word.isalpha() else repr(word)
