"""`lazydelta spark plan` and `lazydelta spark read`: Spark's executors at work, and their story.

The story is what took how long, which way was chosen and why, how many files went in and out, and
how much memory the driver needed. It goes to standard error where rows go to standard output.
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import pyarrow as pa

import lazydelta.spark as executors
from lazydelta.cli.output import Output
from lazydelta.cli.read import columns_option, where_option
from lazydelta.cli.show import show_rows
from lazydelta.cli.spark_story import TaskProgress, peak_memory
from lazydelta.cli.state import State, common_options, pass_state
from lazydelta.cli.versions import pick_snapshot, version_options
from lazydelta.errors import ConfigError
from lazydelta.scan import Explanation

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

__all__ = ["plan", "read"]

F = TypeVar("F", bound=Callable[..., Any])

_STORAGE_OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"
_SHOWN_ROWS = 10


class _Setting(click.ParamType):
    """`KEY=VALUE` of Spark."""

    name = "KEY=VALUE"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, sign, text = value.partition("=")
        if not sign or not key.startswith("spark."):
            self.fail("expected a setting like spark.driver.memory=2g", param, ctx)
        return key, text


def session_options(function: F) -> F:
    """Give a command the options that describe how Spark is started."""
    for option in (
        click.option("--ui", is_flag=True, help="Serve Spark's own pages meanwhile."),
        click.option("--conf", type=_Setting(), multiple=True, help="A setting of Spark."),
        click.option("--cores", type=click.IntRange(min=1), help="Tasks at once; default: all."),
    ):
        function = option(function)
    return function


@dataclass
class _Work:
    """A session, and what has been done with it so far."""

    spark: Any
    progress: TaskProgress
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str, title: str) -> Iterator[None]:
        """Time a phase, and show it while it lasts."""
        started = time.perf_counter()
        self.progress.phase = title
        try:
            if self.spark is None:
                yield
            else:
                with executors.described(self.spark, f"lazydelta: {title}"):
                    yield
        finally:
            self.seconds[name] = round(time.perf_counter() - started, 3)


@contextmanager
def _working(
    state: State, *, cores: int | None, conf: tuple[tuple[str, str], ...], ui: bool
) -> Iterator[_Work]:
    """Start Spark for a command, and stop it when the command ends."""
    settings = dict(conf) | ({"spark.ui.enabled": "true"} if ui else {})
    with (
        tempfile.TemporaryDirectory(prefix="lazydelta-") as private,
        TaskProgress(enabled=not state.quiet) as progress,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", FutureWarning)  # PySpark's, about versions of pandas
        if state.storage_options:  # executors are processes of this machine and of this user
            file = Path(private) / "storage-options.json"
            file.touch(mode=0o600)
            file.write_text(json.dumps(state.storage_options), encoding="utf-8")
            settings[_STORAGE_OPTIONS_FILE] = str(file)
        work = _Work(None, progress)
        with work.phase("start_spark", "starting Spark"):
            work.spark = progress.spark = executors.local_session(cores=cores, conf=settings)
        try:
            if ui:
                progress.pause()
                click.echo(f"Spark's pages: {work.spark.sparkContext.uiWebUrl}", err=True)
            yield work
        finally:
            progress.spark = None
            work.spark.stop()


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
    **started: Any,
) -> None:
    """Find the files of the table at URL that a read would need, with Spark.

    Shows who replayed the log and why, how long each phase took, how many files there were before
    and after data skipping, and the driver's peak memory. No list of files is brought here.
    """
    with _working(state, **started) as work:
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
    _show(state, story)


def _show(state: State, story: Explanation) -> None:
    output = Output(json=state.json)
    if output.json:
        output.document(story)
    elif output.is_terminal:
        output.text(str(story))
    else:
        output.flat(story)


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
    cores: int | None,
    conf: tuple[tuple[str, str], ...],
    ui: bool,
    **asked: Any,
) -> None:
    """Read rows of the table at URL with Spark.

    Rows go to standard output as those of `lazydelta head` do; what it took to standard error.
    """
    if sum((as_csv, state.json, parquet is not None)) > 1:
        raise click.UsageError("--csv, --json and --parquet exclude each other")
    if parquet is not None and parquet.exists():
        raise ConfigError("--parquet", f"cannot write {parquet}: it exists already")
    with _working(state, cores=cores, conf=conf, ui=ui) as work:
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
