"""`lazydelta spark plan` and `lazydelta spark read`: Spark's executors at work, and their story.

The story is what took how long, which way was chosen and why, how many files went in and out, and
how much memory the driver needed. It goes to standard error where rows go to standard output.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

import lazydelta.spark as executors
from lazydelta.cli.read import columns_option, where_option
from lazydelta.cli.show import show_rows
from lazydelta.cli.spark_session import Start, session_options, show_story, working
from lazydelta.cli.spark_story import peak_memory
from lazydelta.cli.state import State, common_options, pass_state
from lazydelta.cli.versions import pick_snapshot, version_options
from lazydelta.errors import ConfigError
from lazydelta.scan.plan import Explanation

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["plan", "read"]

_SHOWN_ROWS = 10


@click.command()
@click.argument("url")
@where_option
@version_options
@session_options
@common_options
@pass_state
def plan(
    state: State,
    /,
    url: str,
    *,
    where: str | None,
    version: int | None,
    timestamp: datetime | None,
    start: Start,
) -> None:
    """Find the files of the table at URL that a read would need, with Spark.

    Shows who replayed the log and why, how long each phase took, how many files there were before
    and after data skipping, and the driver's peak memory. No list of files is brought here.
    """
    with working(state, start) as work:
        with work.phase("load_snapshot", "loading the snapshot"):
            snapshot = pick_snapshot(state, url, version, timestamp)
            told = executors.explain_replay(work.spark, snapshot)
        with work.phase("replay_and_skip", "replaying the log and skipping files"):
            files = executors.live_files(work.spark, snapshot, where=where, fields=["size"])
            (found,) = files.selectExpr("count(*)", "coalesce(sum(size), 0)").collect()
        files_told = {"before_about": told["replay"]["estimated_files"], "after": found[0]}
        story = Explanation(
            **told,
            files={**files_told, "bytes": found[1]},
            seconds=work.seconds,
            peak_driver_memory=peak_memory(),
        )
    show_story(state, story)


@click.command()
@click.argument("url")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    help=f"Most rows; default: {_SHOWN_ROWS}, or all with --parquet.",
)
@where_option
@columns_option
@version_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option(
    "--parquet",
    metavar="OUT",
    type=click.Path(path_type=Path),
    help="Let executors write the rows to a new directory of Parquet files.",
)
@click.option(
    "--path",
    type=click.Choice(["auto", "native", "arrow"]),
    default="auto",
    show_default=True,
    help="Who reads files: Spark's own scan, this package's reader, or whichever suits.",
)
@session_options
@common_options
@pass_state
def read(
    state: State,
    /,
    url: str,
    *,
    limit: int | None,
    as_csv: bool,
    parquet: Path | None,
    version: int | None,
    timestamp: datetime | None,
    start: Start,
    **asked: Any,
) -> None:
    """Read rows of the table at URL with Spark.

    Rows go to standard output as those of `lazydelta head` do; what it took to standard error.
    """
    if sum((as_csv, state.json, parquet is not None)) > 1:
        raise click.UsageError("--csv, --json and --parquet exclude each other")
    if parquet is not None and parquet.exists():
        raise ConfigError("--parquet", f"cannot write {parquet}: it exists already")
    with working(state, start) as work:
        with work.phase("choose", "choosing how to read"):
            fixed = pick_snapshot(state, url, version, timestamp).version
            told = executors.explain_read(work.spark, url, version=fixed, **asked)
            frame = executors.read(work.spark, url, version=fixed, **asked)
        with work.phase("read", "reading rows"):
            if parquet is None:
                rows = frame.limit(_SHOWN_ROWS if limit is None else limit).toArrow()
                count = rows.num_rows
            else:
                (frame if limit is None else frame.limit(limit)).write.parquet(str(parquet))
                count = _rows_in(parquet)
        told = Explanation(
            **told, result={"rows": count}, seconds=work.seconds, peak_driver_memory=peak_memory()
        )
    if parquet is None:
        show_rows(state, _reader(rows), as_csv=as_csv, parquet=None)
    if not state.quiet:
        click.echo(state.hide(str(told)), err=True)


def _reader(rows: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())


def _rows_in(directory: Path) -> int:
    """Return how many rows were written, by the footers of the files."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in directory.glob("*.parquet"))
