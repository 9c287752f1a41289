"""The tables that a statement can name: registered ones, and addresses in backticks."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from lazydelta.errors import ConfigError
from lazydelta.interop.query import QueryBuilder
from lazydelta.statements import Token, tokens
from lazydelta.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from lazydelta.config import Config
    from lazydelta.interop.query import Engine
    from lazydelta.statements import TableName

__all__ = ["StatementTables"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementTables:
    """Tables by name, and how to open those that are named by an address.

    Raises:
        ConfigError: `named` is not a mapping of names.
    """

    named: Mapping[str, Any] = field(default_factory=dict)
    storage_options: Mapping[str, Any] | None = None
    config: Config | None = None

    def __post_init__(self) -> None:
        """Validate the names."""
        is_mapping = isinstance(self.named, Mapping)
        if not is_mapping or not all(isinstance(name, str) and name for name in self.named):
            raise ConfigError("tables", 'must map names to tables, as in {"trips": table}')

    def source(self, table: TableName) -> Any:
        """Return what a name stands for, or the table at an address.

        Raises:
            ConfigError: There is no such name.
        """
        found = None if table.name is None else self._get(table.name)
        if found is not None:
            return found
        if table.address is not None:
            return self._open(table.address)
        known = ", ".join(self.named) or "none"
        raise ConfigError(
            "tables",
            f"no table is named {table.name!r} (named: {known}); add it, or write the path of the "
            "table in `backticks`",
        )

    def target(self, table: TableName) -> Table:
        """Return the table that a statement changes.

        Raises:
            ConfigError: There is no such name, or it stands for something else than a table.
        """
        found = self.source(table)
        if not isinstance(found, Table):
            kind = type(found).__name__
            raise ConfigError("tables", f"{table.name!r} is a {kind}: only a Table can be changed")
        return found

    def query(self, sql: str, engine: Engine | None) -> pa.RecordBatchReader:
        """Run a query; names and addresses in backticks become names of the engine.

        An address is a name in backticks after FROM, JOIN or `delta.` that is not registered.

        Raises:
            QueryError: The engine rejects the query.
        """
        builder = QueryBuilder(engine)
        pieces: list[str] = []
        position = 0
        for token, place in _places(sql):
            known = self._named_as(token.name) if token.is_name else None
            if known is not None:
                builder.register(known, self._get(known))
            elif token.kind == "quoted" and place.is_table:
                builder.register(token.name, self._open(token.name))
            if token.kind == "quoted":
                pieces += [sql[position : place.start], '"', token.name.replace('"', '""'), '"']
                position = token.end
        return builder.execute("".join([*pieces, sql[position:]]))

    def _get(self, name: str) -> Any:
        known = self._named_as(name)
        found = None if known is None else self.named[known]
        return self._open(found) if isinstance(found, str | os.PathLike) else found

    def _named_as(self, name: str) -> str | None:
        """Return a registered name, which may differ in case."""
        if name in self.named:
            return name
        return next((known for known in self.named if known.lower() == name.lower()), None)

    def _open(self, url: str | os.PathLike[str]) -> Table:
        return Table.open(url, self.storage_options, self.config)


class _Place(NamedTuple):
    """Where a token is in a query."""

    start: int
    """Its own start, or that of the `delta.` before it."""
    is_table: bool
    """Whether a table is expected there."""


def _places(sql: str) -> Iterator[tuple[Token, _Place]]:
    """Yield the tokens of a query, each with its place."""
    start_of_query = Token("sign", "(", 0)
    before = [start_of_query, start_of_query]
    in_query = [True]  # for each parenthesis; FROM is no clause in extract(year FROM day)
    for token in tokens(sql, "engine"):
        is_delta = before[0].says("delta") and before[1].says(".")
        follows = before[1].says("from", "join") and in_query[-1]
        yield token, _Place(before[0].start if is_delta else token.start, is_delta or follows)
        if token.says("("):
            in_query.append(False)
        elif token.says(")") and len(in_query) > 1:
            in_query.pop()
        elif token.says("select", "with") or (token.says("from") and before[1].says("(")):
            in_query[-1] = True
        before = [before[1], token]
