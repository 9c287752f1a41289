"""The version that a command reads: `--version`, `--timestamp`, or the newest."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lazydelta.table import Snapshot, Table

if TYPE_CHECKING:
    from lazydelta.cli.common_options import State
    from lazydelta.config import Config

__all__ = ["Time", "open_table", "pick_snapshot", "version_options"]

F = TypeVar("F", bound=Callable[..., Any])


class Time(click.ParamType):
    """An ISO 8601 timestamp; UTC if it has no zone."""

    name = "TIME"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> datetime:
        if isinstance(value, datetime):
            return value
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is not a timestamp like 2026-01-31T12:00:00+00:00", param, ctx)
        return moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)


def version_options(function: F) -> F:
    """Add `--version` and `--timestamp` to a command."""
    for option in (
        click.option("--timestamp", type=Time(), help="The version at this time (ISO 8601; UTC)."),
        click.option("--version", type=click.IntRange(min=0), help="A version; default: newest."),
    ):
        function = option(function)
    return function


def open_table(state: State, url: str, config: Config | None = None) -> Table:
    """Open the table with the storage options of the command."""
    return Table.open(url, state.storage_options or None, config)


def pick_snapshot(
    state: State, url: str, version: int | None, timestamp: datetime | None
) -> Snapshot:
    """Return the requested snapshot."""
    if version is not None and timestamp is not None:
        raise click.UsageError("--version and --timestamp exclude each other")
    return open_table(state, url).snapshot(version, timestamp)
