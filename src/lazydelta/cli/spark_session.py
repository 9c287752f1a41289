"""A Spark session for one command, what it has done so far, and how that is told."""

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
from lazydelta.cli.output import Output
from lazydelta.cli.pairs import Pair
from lazydelta.cli.spark_story import TaskProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lazydelta.cli.state import State

__all__ = ["Start", "Work", "session_options", "show_story", "working"]

F = TypeVar("F", bound=Callable[..., Any])

_STORAGE_OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"


@dataclass(frozen=True)
class Start:
    """What the caller said of the session that a command gets."""

    cores: int | None
    conf: tuple[tuple[str, str], ...]
    ui: bool
    remote: str | None

    def session(self, settings: Mapping[str, str]) -> Any:
        """Start Spark on this machine, or join the server that was named."""
        if self.remote is None:
            return executors.local_session(cores=self.cores, conf=settings)
        return executors.connect_session(self.remote, conf=settings)


def session_options(function: F) -> F:
    """Give a command the options that describe its session; it gets them as one `start`."""

    @functools.wraps(function)
    def command(*args: Any, remote: str | None, ui: bool, cores: int | None, **rest: Any) -> Any:
        if remote is not None and (ui or cores is not None):
            raise click.UsageError("--ui and --cores are for a Spark that is started here")
        return function(*args, start=Start(cores, rest.pop("conf"), ui, remote), **rest)

    for option in (
        click.option(
            "--remote",
            metavar="sc://HOST:PORT",
            help="A Spark Connect server that does it; default: a Spark started here.",
        ),
        click.option("--ui", is_flag=True, help="Serve Spark's own pages meanwhile."),
        click.option(
            "--conf",
            type=Pair("KEY", "VALUE", prefix="spark.", like="spark.driver.memory=2g"),
            multiple=True,
            help="A setting of Spark.",
        ),
        click.option("--cores", type=click.IntRange(min=1), help="Tasks at once; default: all."),
    ):
        option(command)
    return cast("F", command)


@dataclass
class Work:
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
def working(state: State, start: Start) -> Iterator[Work]:
    """Give a command its session, which ends with the command."""
    settings = dict(start.conf) | ({"spark.ui.enabled": "true"} if start.ui else {})
    with (
        tempfile.TemporaryDirectory(prefix="lazydelta-") as private,
        TaskProgress(enabled=not state.quiet) as progress,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", FutureWarning)  # PySpark's, about versions of pandas
        if state.storage_options:
            settings[_STORAGE_OPTIONS_FILE] = _shared(state.storage_options, private, start)
        work = Work(None, progress)
        with work.phase(
            "start_spark", "starting Spark" if start.remote is None else "joining Spark"
        ):
            work.spark = start.session(settings)
            progress.follow(work.spark, remote=start.remote is not None)
        try:
            if start.ui:
                progress.pause()
                click.echo(f"Spark's pages: {work.spark.sparkContext.uiWebUrl}", err=True)
            yield work
        finally:
            progress.follow(None)
            work.spark.stop()


def _shared(options: Mapping[str, str], directory: str, start: Start) -> str:
    """Write storage options where executors find them, and nobody else; return where."""
    if start.remote is not None:
        raise click.UsageError(
            "storage options given here do not reach the executors of a --remote server: put them "
            f"into a file on its machines and say --conf {_STORAGE_OPTIONS_FILE}=FILE"
        )
    file = Path(directory) / "storage-options.json"  # executors are processes of this very user
    file.touch(mode=0o600)
    file.write_text(json.dumps(options), encoding="utf-8")
    return str(file)


def show_story(state: State, story: Mapping[str, Any]) -> None:
    """Show what was done: as JSON, as text for people, or a line for each fact."""
    output = Output(json=state.json)
    if output.json:
        output.document(story)
    elif output.is_terminal:
        output.text(str(story))
    else:
        output.flat(story)
