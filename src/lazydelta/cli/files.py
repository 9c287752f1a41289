"""`lazydelta files` and `lazydelta explain`: list the files of a scan, or show its plan."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.file_formats import FORMATS, HUMAN_HEADER, csv_header
from lazydelta.cli.output import Output
from lazydelta.cli.progress import Progress
from lazydelta.cli.versions import pick_snapshot, version_options
from lazydelta.config import ScanStrategy

if TYPE_CHECKING:
    from datetime import datetime

    import pyarrow as pa

    from lazydelta.scan import Scan

__all__ = ["explain", "files"]

F = TypeVar("F", bound=Callable[..., Any])


def scan_options(function: F) -> F:
    """Add the options that describe a scan to a command."""
    for option in (
        click.option(
            "--strategy",
            type=click.Choice([strategy.value for strategy in ScanStrategy]),
            default="auto",
            show_default=True,
            help="The order of files: newest first, checkpoint first, or chosen by the scan.",
        ),
        click.option(
            "--limit",
            type=click.IntRange(min=0),
            help="Maximum number of files to list (files, not rows).",
        ),
        click.option(
            "--where",
            metavar="SQL",
            help="Only files that may hold a matching row, as in: day = '2026-01-31' AND fare > 50",
        ),
    ):
        function = option(function)
    return version_options(function)


@click.command()
@click.argument("url")
@scan_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option("--all-fields", is_flag=True, help="Also rows, statistics, tags and row tracking.")
@common_options
@pass_state
def files(
    state: State,
    /,
    url: str,
    *,
    as_csv: bool,
    all_fields: bool,
    limit: int | None,
    **scan_arguments: Any,
) -> None:
    """List the files of the table at URL, as they are found.

    On a terminal: size, time, deleted rows and path. In a pipe: tab-separated path, size,
    modification_time, partition_values, deleted_rows, version. With --json: one object per line.
    """
    if as_csv and state.json:
        raise click.UsageError("--csv and --json exclude each other")
    scan = _scan(state, url, **scan_arguments)
    is_terminal = sys.stdout.isatty()
    style = "json" if state.json else "csv" if as_csv else "human" if is_terminal else "tsv"
    if style == "human" and all_fields:
        style = "tsv"  # more fields than fit on a line
    printer = _Printer(style)
    started = time.perf_counter()
    with (
        _progress(state, scan) as progress,
        scan.file_batches(limit=limit, all_fields=all_fields) as batches,
    ):
        for batch in batches:
            if is_terminal:
                progress.pause()
            printer.show(batch)
    printer.finish()
    if sys.stderr.isatty() and not state.quiet:
        seconds = time.perf_counter() - started
        click.echo(f"{printer.count:,} files in {seconds:.2f} s", err=True)


class _Printer:
    """Writes batches to standard output in one format, each as it arrives."""

    def __init__(self, style: str) -> None:
        self._style = style
        self._format = FORMATS[style]
        self._stream = sys.stdout.buffer
        self._has_header = False
        self.count = 0

    def show(self, batch: pa.RecordBatch) -> None:
        self._head(batch)
        self.count += batch.num_rows
        if batch.num_rows:
            self._stream.write(self._format(batch))
            self._stream.flush()

    def finish(self) -> None:
        """Flush; on a terminal, report an empty list."""
        self._stream.flush()
        if self._style == "human" and not self.count:
            click.echo("no files")

    def _head(self, batch: pa.RecordBatch) -> None:
        if self._has_header:
            return
        if self._style == "csv":
            self._stream.write(csv_header(batch))
        elif self._style == "human" and batch.num_rows:
            click.secho(HUMAN_HEADER, bold=True)
        self._has_header = self._style != "human" or batch.num_rows > 0


@click.command()
@click.argument("url")
@scan_options
@common_options
@pass_state
def explain(state: State, /, url: str, *, limit: int | None, **scan_arguments: Any) -> None:
    """List the files of the table at URL, all or up to --limit, and show what the scan read."""
    scan = _scan(state, url, **scan_arguments)
    with _progress(state, scan), scan.file_batches(limit=limit) as batches:
        for _ in batches:
            pass
    plan, output = scan.explain(), Output(json=state.json)
    if output.json:
        output.document(plan)
    elif output.is_terminal:
        output.print(str(plan))
    else:
        output.flat(plan)


def _scan(
    state: State,
    url: str,
    *,
    version: int | None,
    timestamp: datetime | None,
    **scan_arguments: Any,
) -> Scan:
    snapshot = pick_snapshot(state, url, version, timestamp)
    return snapshot.scan(**scan_arguments)


def _progress(state: State, scan: Scan) -> Progress:
    def describe() -> tuple[int, str]:
        plan = scan.explain(count_files=False)
        is_past_tail = plan["checkpoint"]["leaves_opened"] > 0
        phase = "reading the checkpoint" if is_past_tail else "reading commits"
        return plan["files"]["emitted"], phase

    return Progress(describe, enabled=not state.quiet)
