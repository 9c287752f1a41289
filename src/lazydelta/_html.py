"""`_repr_html_` methods for notebooks: small, escaped, without I/O.

Each function is the method of one class. A `_repr_html_` never raises: on an error it falls back to
`repr()`. Knows the attributes it renders, and imports none of the classes.
"""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["explanation_html", "schema_html", "snapshot_html", "table_html"]

_MAX_ROWS = 100


def _never_raises(render: Callable[[Any], str]) -> Callable[[Any], str]:
    @wraps(render)
    def safe(self: Any) -> str:
        try:
            return render(self)
        except Exception:  # noqa: BLE001 - a notebook must show something
            return f"<pre>{_escaped(object.__repr__(self))}</pre>"

    return safe


@_never_raises
def table_html(self: Any) -> str:
    """Render a `Table`: its URL only, because a handle holds no state of the table."""
    return _facts("Delta table", {"url": self.url, "state": "not loaded: see .snapshot()"})


@_never_raises
def snapshot_html(self: Any) -> str:
    """Render a `SnapshotState`: version, metadata, protocol and columns, all of them in memory."""
    metadata, protocol = self.metadata, self.protocol
    facts = {
        "url": self.store.root,
        "version": self.version,
        "name": metadata.name,
        "description": metadata.description,
        "partition columns": ", ".join(self.partition_columns) or None,
        "protocol": f"reader {protocol.min_reader_version}, writer {protocol.min_writer_version}",
        "files": self.num_files,
    }
    shown = {name: value for name, value in facts.items() if value is not None}
    return _facts("Delta snapshot", shown) + schema_html(self.schema)


@_never_raises
def schema_html(self: Any) -> str:
    """Render a `StructType`: a row for each field."""
    rows = [
        (
            field.name,
            field.type,
            "yes" if field.nullable else "no",
            field.metadata.get("comment", ""),
        )
        for field in self.fields[:_MAX_ROWS]
    ]
    more = len(self.fields) - len(rows)
    caption = f"<p>and {more:,} more columns</p>" if more else ""
    return _grid(("column", "type", "nullable", "comment"), rows) + caption


@_never_raises
def explanation_html(self: Any) -> str:
    """Render an `Explanation`: a table for each level."""
    plain = {name: value for name, value in self.items() if not isinstance(value, dict)}
    levels = {name: value for name, value in self.items() if isinstance(value, dict)}
    return _facts("Scan", plain) + "".join(_facts(name, level) for name, level in levels.items())


def _facts(title: str, facts: Mapping[str, object]) -> str:
    rows = [(name.replace("_", " "), _shown(value)) for name, value in facts.items()]
    return f"<p><b>{_escaped(title.replace('_', ' '))}</b></p>" + _grid((), rows)


def _shown(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:,}" if isinstance(value, int) else str(value)


def _grid(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    head = f"<thead>{_row(header, 'th')}</thead>" if header else ""
    return f"<table>{head}<tbody>{''.join(_row(row, 'td') for row in rows)}</tbody></table>"


def _row(cells: Sequence[object], tag: str) -> str:
    return f"<tr>{''.join(f'<{tag}>{_escaped(str(cell))}</{tag}>' for cell in cells)}</tr>"


def _escaped(string: str) -> str:
    from html import escape  # rarely needed, and `import lazydelta` is to be quick

    return escape(string)
