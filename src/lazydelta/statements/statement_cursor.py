"""A pass over the tokens of a statement, and the parts that several statements have."""

from __future__ import annotations

from typing import NoReturn

from lazydelta.statements.statement import Assignment, Subquery, TableName
from lazydelta.statements.statement_lexer import Token, fail_at, next_token, tokens

__all__ = ["QUERY_STARTS", "StatementCursor"]

QUERY_STARTS = ("select", "with", "from", "values", "table")
_NO_ALIAS = (
    *("as", "by", "from", "join", "on", "overwrite", "select", "set", "table", "using", "values"),
    *("when", "where", "with"),
)
"""Keywords that may follow a table, so they are no alias of it."""
_ONE_STATEMENT = "give one statement: nothing may follow the ';'"


class StatementCursor:
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
        if len(parts) == 2 and first.says("delta", "lazydelta") and parts[1].kind == "quoted":
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
        if inner.says("(", *QUERY_STARTS):
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

    def partition(self) -> dict[str, str | None]:
        """Parse `PARTITION (a = 1, b)`; empty if it is not next."""
        if not self.accept("partition"):
            return {}
        self.expect("(")
        found: dict[str, str | None] = {}
        while not found or self.accept(","):
            column = self.name("a column")
            if column.name.lower() in map(str.lower, found):
                fail_at(self.sql, column, f"names the column {column.name!r} twice")
            found[column.name] = self.literal() if self.accept("=") else None
        self.expect(")")
        return found

    def literal(self) -> str:
        """Parse a literal: a string, a number, NULL, TRUE, `DATE '2026-01-01'`."""
        start = self.token.start
        self.accept("-", "date", "timestamp", "timestamp_ntz")
        is_word = self.token.says("null", "true", "false")
        if not is_word and self.token.kind not in ("string", "number"):
            self.fail("expected a literal")
        return self.sql[start : self.take().end]

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
            if not self.token.is_field_name:
                self.fail("expected a field")
            path.append(self.take().name)
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
