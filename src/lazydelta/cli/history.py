"""`lazydelta history`: the retained commits of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output
from lazydelta.cli.versions import open_table

if TYPE_CHECKING:
    from datetime import datetime

    from lazydelta.snapshot import HistoryEntry

__all__ = ["history"]


@click.command()
@click.argument("url")
@click.option("--limit", type=click.IntRange(min=0), help="Maximum number of commits to list.")
@common_options
@pass_state
def history(state: State, /, url: str, *, limit: int | None) -> None:
    """List the retained commits of the table at URL, newest first.

    In a pipe: tab-separated version, time, operation, parameters, metrics, engine, user.
    """
    commits = open_table(state, url).history(limit)
    output = Output(json=state.json)
    if output.json:
        output.lines(_to_dict(entry) for entry in commits)
    elif output.is_terminal:
        rows = [
            (str(entry.version), _iso(entry.timestamp) or "-", entry.operation, _details(entry))
            for entry in commits
        ]
        output.table(("version", "time (UTC)", "operation", "details"), rows)
    else:
        output.table((), [tuple(_to_dict(entry).values()) for entry in commits])


def _to_dict(entry: HistoryEntry) -> dict[str, Any]:
    raw = entry.raw
    return {
        "version": entry.version,
        "timestamp": _iso(entry.timestamp),
        "operation": entry.operation,
        "operation_parameters": raw.get("operationParameters"),
        "operation_metrics": raw.get("operationMetrics"),
        "engine_info": raw.get("engineInfo"),
        "user_name": raw.get("userName"),
    }


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat(timespec="milliseconds")


def _details(entry: HistoryEntry) -> str:
    """Return the metrics of a commit, else its parameters, else the engine, on one line."""
    for name in ("operationMetrics", "operationParameters"):
        values = entry.raw.get(name)
        if isinstance(values, dict) and values:
            return ", ".join(f"{key} {value}" for key, value in values.items())
    return str(entry.raw.get("engineInfo") or "")
