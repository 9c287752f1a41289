"""Print results: tables on a terminal, tab-separated lines in a pipe, or JSON.

rich is imported only on a terminal, if it is installed. Strings of a table may contain anything,
so control characters are escaped before they reach a terminal or split a line.
"""

from __future__ import annotations

import importlib.util
import re
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click
import orjson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["Output", "human_bytes", "human_time", "visible"]

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
_SHORT = {"\t": "\\t", "\n": "\\n", "\r": "\\r"}


def visible(value: str) -> str:
    r"""Return the string with control characters escaped.

    >>> print(visible("a\tb\x1b[2J"))
    a\tb\x1b[2J
    """
    return _CONTROL.sub(lambda match: _escaped(match[0]), value)


def _escaped(character: str) -> str:
    code = ord(character)
    return _SHORT.get(character) or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def human_bytes(size: float | None) -> str:
    """Return a size with a binary unit.

    >>> human_bytes(999), human_bytes(1536), human_bytes(5 << 40)
    ('999 B', '1.5 KiB', '5.0 TiB')
    """
    if size is None:
        return "-"
    units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while size >= 1024 and len(units) > 1:
        size /= 1024
        del units[0]
    return f"{size:.0f} B" if units[0] == "B" else f"{size:.1f} {units[0]}"


def human_time(milliseconds: int | None) -> str:
    """Return a timestamp of the log in UTC, to the second.

    >>> human_time(0)
    '1970-01-01 00:00:00'
    """
    if milliseconds is None:
        return "-"
    try:
        moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return str(milliseconds)  # out of range for datetime
    return f"{moment:%Y-%m-%d %H:%M:%S}"


class Output:
    """Standard output, in the format that suits its destination."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self.is_terminal = not json and sys.stdout.isatty()

    def document(self, value: Mapping[str, Any]) -> None:
        """Print one JSON document, indented on a terminal."""
        option = orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0
        self.print(orjson.dumps(value, default=str, option=option).decode())

    def lines(self, values: Iterable[Mapping[str, Any]]) -> None:
        """Print one JSON document per line."""
        for value in values:
            self.print(orjson.dumps(value, default=str).decode())

    def print(self, line: str) -> None:
        """Print a formatted line."""
        click.echo(line)

    def title(self, heading: str) -> None:
        """Print a heading, on a terminal only."""
        if self.is_terminal:
            click.secho(f"\n{visible(heading)}", bold=True)

    def flat(self, value: Mapping[str, Any]) -> None:
        """Print a document for a pipe: one dotted name and its value per line."""
        for name, leaf in _leaves("", value):
            self.print(f"{visible(name)}\t{visible(_plain(leaf))}")

    def facts(self, facts: Mapping[str, Any]) -> None:
        """Print names and values, one aligned pair per line."""
        width = max((len(visible(name)) for name in facts), default=0)
        for name, value in facts.items():
            label = click.style(f"{visible(name):<{width}}", fg="cyan")
            self.print(f"{label}  {visible(_format(value))}")

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
        """Print rows under a header; a pipe gets the rows only."""
        if not self.is_terminal:
            for row in rows:
                self.print("\t".join(visible(_plain(value)) for value in row))
            return
        cells = [[visible(_format(value)) for value in row] for row in rows]
        if importlib.util.find_spec("rich") is None:
            _plain_table(columns, cells)
        else:
            _rich_table(columns, cells)


def _leaves(prefix: str, value: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, inner in value.items():
        if isinstance(inner, dict) and inner:
            yield from _leaves(f"{prefix}{name}.", inner)
        else:
            yield f"{prefix}{name}", inner


def _plain(value: Any) -> str:
    """Return a value for a program: unabbreviated, empty for None."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int, float)):
        return str(value)
    return orjson.dumps(value, default=str).decode()


def _format(value: Any) -> str:
    """Return a value for a terminal."""
    if value is None or value in ("", [], (), {}):
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:,.3f}"
    if isinstance(value, (list, tuple)):
        return ", ".join(map(str, value))
    return str(value) if isinstance(value, str) else orjson.dumps(value, default=str).decode()


def _plain_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    import shutil  # slow to import

    widths = [
        max([len(name), *(len(row[i]) for row in rows)]) for i, name in enumerate(columns[:-1])
    ]
    room = max(20, shutil.get_terminal_size((100, 24)).columns - sum(widths) - 2 * len(widths))
    click.secho(_aligned(columns, widths), bold=True)
    for row in rows:
        last = row[-1] if len(row[-1]) <= room else f"{row[-1][: room - 1]}…"
        click.echo(_aligned([*row[:-1], last], widths))


def _aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = [f"{cell:<{width}}" for cell, width in zip(cells, widths, strict=False)]
    return "  ".join([*padded, cells[-1]])


def _rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for index, name in enumerate(columns):
        is_last = index == len(columns) - 1
        numeric = bool(rows) and all(re.fullmatch(r"[\d,.]+", row[index]) for row in rows)
        table.add_column(
            name,
            justify="right" if numeric else "left",
            no_wrap=not is_last,
            overflow="ellipsis",
        )
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))  # not markup: a name may contain `[x]`
    Console(file=sys.stdout, highlight=False).print(table)
