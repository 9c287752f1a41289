"""`lazydelta spark plan` and `lazydelta spark read`: planning and reading on executors.

Both report the chosen path and its reason, the number of files, the time of each phase and the
driver's peak memory. `read` prints rows to standard output, and the report to standard error.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

import lazydelta.spark as executors
from lazydelta.cli import tuning
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.read import columns_option, where_option
from lazydelta.cli.row_output import show_rows
from lazydelta.cli.spark_progress import peak_memory
from lazydelta.cli.spark_session import SessionOptions, run_session, session_options, show_report
from lazydelta.cli.versions import pick_snapshot, version_options
from lazydelta.errors import ConfigError
from lazydelta.scan.plan import Explanation

if TYPE_CHECKING:
    from datetime import datetime

__all__ = ["plan", "read"]


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
    session: SessionOptions,
) -> None:
    """Plan a read of the table at URL with Spark.

    Reports whether executors replayed the log and why, the time of each phase, the number of files
    before and after data skipping, and the driver's peak memory. Files are counted, not collected.
    """
    with run_session(state, session) as run:
        with run.phase("load_snapshot", "loading the snapshot"):
            snapshot = pick_snapshot(state, url, version, timestamp)
            report = executors.explain_replay(run.spark, snapshot)
        with run.phase("replay_and_skip", "replaying the log and skipping files"):
            files = executors.live_files(run.spark, snapshot, where=where, fields=["size"])
            (totals,) = files.selectExpr("count(*)", "coalesce(sum(size), 0)").collect()
        report = Explanation(
            **report,
            files={
                "before_about": report["replay"]["estimated_files"],
                "after": totals[0],
                "bytes": totals[1],
            },
            seconds=run.seconds,
            peak_driver_memory=peak_memory(),
        )
    show_report(state, report)


@click.command()
@click.argument("url")
@click.option(
    "-n",
    "--limit",
    type=click.IntRange(min=0),
    help=f"Maximum number of rows; default: {tuning.SPARK_READ_ROWS}, or all with --parquet.",
)
@where_option
@columns_option
@version_options
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option(
    "--parquet",
    metavar="OUT",
    type=click.Path(path_type=Path),
    help="Write the rows on executors to a new directory of Parquet files.",
)
@click.option(
    "--path",
    type=click.Choice(["auto", "native", "arrow"]),
    default="auto",
    show_default=True,
    help="Reader of the files: Spark's Parquet scan, that of lazydelta, or chosen automatically.",
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
    session: SessionOptions,
    **arguments: Any,
) -> None:
    """Read rows of the table at URL with Spark.

    Prints rows to standard output as `lazydelta head` does, and a report to standard error.
    """
    if sum((as_csv, state.json, parquet is not None)) > 1:
        raise click.UsageError("--csv, --json and --parquet exclude each other")
    if parquet is not None and parquet.exists():
        raise ConfigError("--parquet", f"cannot write {parquet}: it already exists")
    with run_session(state, session) as run:
        with run.phase("choose", "choosing how to read"):
            fixed = pick_snapshot(state, url, version, timestamp).version
            report = executors.explain_read(run.spark, url, version=fixed, **arguments)
            frame = executors.read(run.spark, url, version=fixed, **arguments)
        with run.phase("read", "reading rows"):
            if parquet is None:
                rows = executors.to_arrow(
                    frame.limit(tuning.SPARK_READ_ROWS if limit is None else limit)
                )
                count = rows.num_rows
            else:
                (frame if limit is None else frame.limit(limit)).write.parquet(str(parquet))
                count = _rows_in(parquet)
        report = Explanation(
            **report, result={"rows": count}, seconds=run.seconds, peak_driver_memory=peak_memory()
        )
    if parquet is None:
        show_rows(state, _reader(rows), as_csv=as_csv, parquet=None)
    if not state.quiet:
        click.echo(state.redact(str(report)), err=True)


def _reader(rows: pa.Table) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(rows.schema, rows.to_batches())


def _rows_in(directory: Path) -> int:
    """Return the number of rows in the footers of the files."""
    import pyarrow.parquet as pq

    return sum(pq.read_metadata(file).num_rows for file in directory.glob("*.parquet"))
