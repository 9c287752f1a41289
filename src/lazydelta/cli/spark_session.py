"""The Spark session of a command: its options, its phases, and the report of a run."""

from __future__ import annotations

import functools
import json
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

import lazydelta.spark as executors
from lazydelta.cli.key_value import KeyValue
from lazydelta.cli.output import Output
from lazydelta.cli.spark_progress import TaskProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lazydelta.cli.common_options import State

__all__ = ["SessionOptions", "SessionRun", "run_session", "session_options", "show_report"]

F = TypeVar("F", bound=Callable[..., Any])

_STORAGE_OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"


@dataclass(frozen=True)
class SessionOptions:
    """Options of the session of a command."""

    cores: int | None
    conf: tuple[tuple[str, str], ...]
    ui: bool
    remote: str | None

    def session(self, settings: Mapping[str, str]) -> Any:
        """Start a local session, or connect to the server."""
        if self.remote is None:
            return executors.local_session(cores=self.cores, conf=settings)
        return executors.connect_session(self.remote, conf=settings)


def session_options(function: F) -> F:
    """Add the session options to a command, which receives them as `session`."""

    @functools.wraps(function)
    def command(*args: Any, remote: str | None, ui: bool, cores: int | None, **rest: Any) -> Any:
        if remote is not None and (ui or cores is not None):
            raise click.UsageError("--ui and --cores apply to a local session, not to --remote")
        return function(*args, session=SessionOptions(cores, rest.pop("conf"), ui, remote), **rest)

    for option in (
        click.option(
            "--remote",
            metavar="sc://HOST:PORT",
            help="Use a Spark Connect server; default: a local session.",
        ),
        click.option("--ui", is_flag=True, help="Serve Spark's web UI during the command."),
        click.option(
            "--conf",
            type=KeyValue("KEY", "VALUE", prefix="spark.", example="spark.driver.memory=2g"),
            multiple=True,
            help="A Spark setting.",
        ),
        click.option(
            "--cores",
            type=click.IntRange(min=1),
            help="Number of concurrent tasks; default: all cores.",
        ),
    ):
        option(command)
    return cast("F", command)


@dataclass
class SessionRun:
    """A running session, and the time of its phases."""

    spark: Any
    progress: TaskProgress
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def phase(self, name: str, title: str) -> Iterator[None]:
        """Measure a phase, and show it as progress."""
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
def run_session(state: State, options: SessionOptions) -> Iterator[SessionRun]:
    """Start the session of a command, and stop it at the end."""
    settings = dict(options.conf) | ({"spark.ui.enabled": "true"} if options.ui else {})
    with (
        tempfile.TemporaryDirectory(prefix="lazydelta-") as private,
        TaskProgress(enabled=not state.quiet) as progress,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", FutureWarning)  # PySpark's, about versions of pandas
        if state.storage_options:
            settings[_STORAGE_OPTIONS_FILE] = _write_options_file(
                state.storage_options, private, options
            )
        run = SessionRun(None, progress)
        with run.phase(
            "start_spark",
            "starting Spark" if options.remote is None else "connecting to Spark",
        ):
            run.spark = options.session(settings)
            progress.follow(run.spark, remote=options.remote is not None)
        try:
            if options.ui:
                progress.pause()
                click.echo(f"Spark's web UI: {run.spark.sparkContext.uiWebUrl}", err=True)
            yield run
        finally:
            progress.follow(None)
            run.spark.stop()


def _write_options_file(
    storage_options: Mapping[str, str], directory: str, options: SessionOptions
) -> str:
    """Write storage options to a file that only this user can read; return its path."""
    if options.remote is not None:
        raise click.UsageError(
            "storage options given here do not reach the executors of a --remote server: put them "
            f"into a file on its machines and set --conf {_STORAGE_OPTIONS_FILE}=FILE"
        )
    file = Path(directory) / "storage-options.json"  # local executors run as this user
    file.touch(mode=0o600)
    file.write_text(json.dumps(storage_options), encoding="utf-8")
    return str(file)


def show_report(state: State, report: Mapping[str, Any]) -> None:
    """Print a report: as JSON, formatted for a terminal, or as tab-separated lines."""
    output = Output(json=state.json)
    if output.json:
        output.document(report)
    elif output.is_terminal:
        output.print(str(report))
    else:
        output.flat(report)
