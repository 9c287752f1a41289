"""Splits the statements that define or maintain a table into their parts.

What does not start like one of them is no error: another parser has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lazydelta.statements.spark_statements.maintenance_statement import (
    Alter,
    Convert,
    CreateTable,
    Describe,
    Generate,
    Optimize,
    Restore,
    SetProperties,
    Vacuum,
)
from lazydelta.statements.statement_cursor import StatementCursor

if TYPE_CHECKING:
    from lazydelta.statements.spark_statements.maintenance_statement import MaintenanceStatement
    from lazydelta.statements.statement import TableName

    Step = tuple[str, tuple[Any, ...]]

__all__ = ["parse_maintenance"]

_FORMATS = ("delta", "lazydelta")


def parse_maintenance(sql: str) -> MaintenanceStatement | None:
    """Parse one statement; None if it is of another kind, or creates a table of another format.

    >>> parse_maintenance("VACUUM trips RETAIN 24 HOURS").hours
    24.0

    Raises:
        QueryError: It starts as such a statement; the message shows the place and what was
            expected.
    """
    parser = _Parser(sql)
    for words, part in _STATEMENTS:
        if parser.starts_with(words):
            statement: MaintenanceStatement | None = getattr(parser, part)()
            if statement is not None:
                parser.expect_end()
            return statement
    return None


_STATEMENTS = (
    ("optimize", "optimize"),
    ("reorg table", "reorg"),
    ("vacuum", "vacuum"),
    ("restore", "restore"),
    ("describe history", "history"),
    ("desc history", "history"),
    ("describe detail", "detail"),
    ("desc detail", "detail"),
    ("show tblproperties", "shown_properties"),
    ("convert to delta", "convert"),
    ("generate", "generate"),
    ("alter table", "alter"),
    ("create or replace table", "create_or_replace"),
    ("create table", "create"),
    ("replace table", "replace"),
)
_CHANGES = (
    ("add columns", "added"),
    ("add column", "added"),
    ("drop columns", "dropped"),
    ("drop column", "dropped"),
    ("rename column", "renamed"),
    ("add constraint", "constrained"),
    ("drop constraint", "unconstrained"),
    ("cluster by", "clustered"),
    ("alter column", "changed"),
    ("change column", "changed"),
)
_COLUMN_CHANGES = {
    "set not null": ("set_nullable", False),
    "drop not null": ("set_nullable", True),
    "drop default": ("set_default", None),
}


class _Parser(StatementCursor):
    """A method for each statement, after its first words."""

    def starts_with(self, words: str) -> bool:
        """Consume these keywords if all of them are next."""
        start = self.token
        for word in words.split():
            if not self.accept(word):
                self.token = start
                return False
        return True

    def optimize(self) -> Optimize:
        target = self.bare_table()
        full = self.accept("full")
        where = self.expression("zorder", ";") if self.accept("where") else None
        names: tuple[str, ...] = ()
        if self.accept("zorder"):
            self.expect("by")
            names = self.names()
        return Optimize(target=target, where=where, z_order=names, full=full)

    def reorg(self) -> Optimize:
        target = self.bare_table()
        where = self.expression("apply") if self.accept("where") else None
        self.expect("apply", "(", "purge", ")")
        return Optimize(target=target, where=where, purge=True)

    def vacuum(self) -> Vacuum:
        given: dict[str, Any] = {"target": self.bare_table()}
        while True:
            if self.token.says("full", "lite"):
                given["mode"] = self.take().source.lower()
            elif self.accept("retain"):
                given["hours"] = self.number()
                self.expect("hours")
            elif self.accept("dry"):
                self.expect("run")
                given["dry_run"] = True
            else:
                return Vacuum(**given)

    def restore(self) -> Restore:
        self.accept("table")
        target = self.bare_table()
        self.accept("to")
        if self.accept("timestamp"):
            self.expect("as", "of")
            return Restore(target=target, timestamp=self.string())
        self.expect("version", "as", "of")
        return Restore(target=target, version=int(self.number()))

    def history(self) -> Describe:
        self.accept("table")
        target = self.bare_table()
        limit = int(self.number()) if self.accept("limit") else None
        return Describe(target=target, what="history", limit=limit)

    def detail(self) -> Describe:
        self.accept("table")
        return Describe(target=self.bare_table(), what="detail")

    def shown_properties(self) -> Describe:
        target = self.bare_table()
        key = None
        if self.accept("("):
            key = self.key()
            self.expect(")")
        return Describe(target=target, what="properties", key=key)

    def convert(self) -> Convert:
        if not self.accept("parquet"):
            self.fail("expected parquet.`path`")
        self.expect(".")
        path = self.name("a path in `backticks`").name
        if self.accept("no"):
            self.expect("statistics")
        columns = ""
        if self.accept("partitioned"):
            self.expect("by")
            columns = self.in_parentheses()
        return Convert(path=path, partition_by=columns)

    def generate(self) -> Generate:
        mode = self.name("symlink_format_manifest").name
        self.expect("for", "table")
        return Generate(target=self.bare_table(), mode=mode)

    def alter(self) -> SetProperties | Alter | None:
        target = self.bare_table()
        if self.starts_with("set tblproperties"):
            return SetProperties(target=target, properties=self.properties())
        if not self.starts_with("unset tblproperties"):
            steps = self.steps()
            return None if steps is None else Alter(target=target, steps=steps)
        if_exists = self.starts_with("if exists")
        self.expect("(")
        keys = [self.key()]
        while self.accept(","):
            keys.append(self.key())
        self.expect(")")
        return SetProperties(target=target, unset=tuple(keys), if_exists=if_exists)

    # --- changes of columns: methods of `table.alter`, with their arguments

    def steps(self) -> tuple[Step, ...] | None:
        """Parse what ALTER TABLE changes; None for what only Spark's catalog has, as the name."""
        for words, part in _CHANGES:
            if self.starts_with(words):
                return tuple(getattr(self, part)())
        if self.token.says("rename", "set", "recover"):
            return None
        return self.fail("expected ADD, DROP, RENAME or ALTER COLUMN, CONSTRAINT, CLUSTER BY, SET")

    def added(self) -> list[Step]:
        columns = self.in_parentheses() if self.token.says("(") else self.expression(";")
        return [("add_columns", (columns,))]

    def dropped(self) -> list[Step]:
        return [("drop_column", (column,)) for column in self.column_paths()]

    def renamed(self) -> list[Step]:
        column = self.column_path()
        self.expect("to")
        return [("rename_column", (column, self.name("a name").name))]

    def constrained(self) -> list[Step]:
        name = self.name("a name").name
        self.expect("check")
        return [("add_constraint", (name, self.in_parentheses()))]

    def unconstrained(self) -> list[Step]:
        return [("drop_constraint", (self.name("a name").name,))]

    def clustered(self) -> list[Step]:
        return [("cluster_by", ([] if self.accept("none") else self.column_paths(),))]

    def changed(self) -> list[Step]:
        column = self.column_path()
        for words, (method, value) in _COLUMN_CHANGES.items():
            if self.starts_with(words):
                return [(method, (column, value))]
        if self.accept("comment"):
            return [("set_comment", (column, self.string()))]
        if self.starts_with("set default"):
            return [("set_default", (column, self.expression(";")))]
        if self.accept("type"):
            return [("change_type", (column, self.expression(";")))]
        return self.fail("expected SET or DROP NOT NULL, SET or DROP DEFAULT, COMMENT or TYPE")

    # --- definitions of tables

    def create(self) -> CreateTable | None:
        return self.created("createIfNotExists" if self.starts_with("if not exists") else "create")

    def create_or_replace(self) -> CreateTable | None:
        return self.created("createOrReplace")

    def replace(self) -> CreateTable | None:
        return self.created("replace")

    def created(self, mode: Any) -> CreateTable | None:
        given: dict[str, Any] = {"target": self.bare_table(), "mode": mode}
        if self.token.says("("):
            given["columns"] = self.in_parentheses()
        if not self.accept("using") or self.token.source.strip("`").lower() not in _FORMATS:
            return None
        self.take()
        properties: dict[str, str] = {}
        while self.token.kind != "end" and not self.token.says("as", ";", "select", "with"):
            properties |= self.clause(given)
        if self.accept("as") or self.token.says("select", "with"):
            given["query"] = self.query()
        return CreateTable(**given, properties=properties)

    def clause(self, given: dict[str, Any]) -> dict[str, str]:
        """Parse a clause of CREATE TABLE into `given`, and return properties."""
        if self.accept("tblproperties"):
            return self.properties()
        if self.accept("location"):
            given["location"] = self.string()
        elif self.accept("comment"):
            given["comment"] = self.string()
        elif self.accept("partitioned"):
            self.expect("by")
            given["partition_by"] = self.names()
        elif self.accept("cluster"):
            self.expect("by")
            given["cluster_by"] = self.names()
        elif self.accept("options"):
            options = {name.lower(): value for name, value in self.properties().items()}
            if set(options) != {"path"}:
                self.fail("expected OPTIONS (path '...')")
            given["location"] = options["path"]
        else:
            self.fail("expected TBLPROPERTIES, LOCATION, COMMENT, PARTITIONED BY, CLUSTER BY or AS")
        return {}

    # --- parts

    def bare_table(self) -> TableName:
        return self.table(with_alias=False)

    def names(self) -> tuple[str, ...]:
        """Parse `(a, b.c)` or `a, b.c`."""
        return tuple(".".join(parts) for parts in self.column_paths())

    def path(self) -> str:
        return ".".join(self.column_path())

    def column_path(self) -> tuple[str, ...]:
        parts = [self.name("a column").name]
        while self.accept("."):
            parts.append(self.name("a field").name)
        return tuple(parts)

    def column_paths(self) -> list[tuple[str, ...]]:
        """Parse `(a, b.c)` or `a, b.c`."""
        closes = self.accept("(")
        paths = [self.column_path()]
        while self.accept(","):
            paths.append(self.column_path())
        if closes:
            self.expect(")")
        return paths

    def properties(self) -> dict[str, str]:
        """Parse `(key = 'value', 'key' = 'value', ...)`."""
        self.expect("(")
        found = dict([self.property()])
        while self.accept(","):
            found |= dict([self.property()])
        self.expect(")")
        return found

    def property(self) -> tuple[str, str]:
        key = self.key()
        self.accept("=")
        if self.token.kind == "string":
            return key, self.string()
        return key, self.take().source

    def key(self) -> str:
        """Parse the key of a property: a string, or names with dots."""
        return self.string() if self.token.kind == "string" else self.path()

    def in_parentheses(self) -> str:
        """Consume `(...)` and return what is inside."""
        start = self.token
        self.expect("(")
        begin, depth = self.token.start, 1
        while self.token.kind != "end":
            token = self.take()
            depth += token.says("(") - token.says(")")
            if not depth:
                return self.sql[begin : token.start].strip()
        return self.unclosed(start.start)

    def number(self) -> float:
        token = self.token
        try:
            value = float(token.source)
        except ValueError:
            self.fail("expected a number")
        self.take()
        return value

    def string(self) -> str:
        if self.token.kind != "string":
            self.fail("expected a string in quotes")
        return self.take().text
