"""A Spark session for one command, what it has done so far, and how that is told."""

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

import lazydelta.spark as executors
from lazydelta.cli.output import Output
from lazydelta.cli.pairs import Pair
from lazydelta.cli.spark_story import TaskProgress

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lazydelta.cli.state import State

__all__ = ["Work", "session_options", "show_story", "working"]

F = TypeVar("F", bound=Callable[..., Any])

_STORAGE_OPTIONS_FILE = "spark.lazydelta.storageOptionsFile"


def session_options(function: F) -> F:
    """Give a command the options that describe how Spark is started."""
    for option in (
        click.option("--ui", is_flag=True, help="Serve Spark's own pages meanwhile."),
        click.option(
            "--conf",
            type=Pair("KEY", "VALUE", prefix="spark.", like="spark.driver.memory=2g"),
            multiple=True,
            help="A setting of Spark.",
        ),
        click.option("--cores", type=click.IntRange(min=1), help="Tasks at once; default: all."),
    ):
        function = option(function)
    return function


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
def working(
    state: State, *, cores: int | None, conf: tuple[tuple[str, str], ...], ui: bool
) -> Iterator[Work]:
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
        work = Work(None, progress)
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


def show_story(state: State, story: Mapping[str, Any]) -> None:
    """Show what was done: as JSON, as text for people, or a line for each fact."""
    output = Output(json=state.json)
    if output.json:
        output.document(story)
    elif output.is_terminal:
        output.text(str(story))
    else:
        output.flat(story)
