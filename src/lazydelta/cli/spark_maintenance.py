"""`lazydelta spark optimize`, `purge`, `vacuum` and `restore`: maintenance on executors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

import lazydelta.spark as executors
from lazydelta.cli.change_options import confirm
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.maintenance import hours_or_interval, restore_options, vacuum_options
from lazydelta.cli.output import human_bytes
from lazydelta.cli.rewrite import optimize_options, purge_options
from lazydelta.cli.spark_progress import peak_memory
from lazydelta.cli.spark_session import SessionOptions, run_session, session_options, show_report
from lazydelta.scan.plan import Explanation

if TYPE_CHECKING:
    from lazydelta.cli.spark_session import SessionRun

__all__ = ["optimize", "purge", "restore", "vacuum"]


@click.command()
@click.argument("url")
@optimize_options
@session_options
@common_options
@pass_state
def optimize(state: State, /, url: str, *, session: SessionOptions, **options: Any) -> None:
    """Rewrite small files of the table at URL into larger ones, or cluster its rows, with Spark."""
    with run_session(state, session) as run, run.phase("optimize", "rewriting files"):
        result = executors.optimize(run.spark, url, **options)
    _show(state, result, run)


@click.command()
@click.argument("url")
@purge_options
@session_options
@common_options
@pass_state
def purge(state: State, /, url: str, *, session: SessionOptions, **options: Any) -> None:
    """Rewrite files of the table at URL that store deleted rows or dropped columns, with Spark."""
    with run_session(state, session) as run, run.phase("purge", "rewriting files"):
        result = executors.purge(run.spark, url, **options)
    _show(state, result, run)


@click.command()
@click.argument("url")
@restore_options
@session_options
@common_options
@pass_state
def restore(state: State, /, url: str, *, session: SessionOptions, **options: Any) -> None:
    """Make an older version of the table at URL the newest one, with Spark."""
    if (options["version"] is None) == (options["timestamp"] is None):
        raise click.UsageError("give either --version or --timestamp")
    with run_session(state, session) as run, run.phase("restore", "comparing versions"):
        result = executors.restore(run.spark, url, **options)
    _show(state, result, run)


@click.command()
@click.argument("url")
@vacuum_options
@session_options
@common_options
@pass_state
def vacuum(
    state: State,
    /,
    url: str,
    *,
    delete: bool,
    yes: bool,
    session: SessionOptions,
    **options: Any,
) -> None:
    """Delete files of the table at URL that no version inside the retention needs, with Spark.

    Reports what it would delete and changes nothing, unless --delete is given.
    """
    options["retention"] = hours_or_interval(options["retention"])
    if options["inventory"] is not None:
        options["inventory"] = str(options["inventory"])
    with run_session(state, session) as run:
        result = None
        if not (delete and yes):
            with run.phase("search", "searching files"):
                result = executors.vacuum(run.spark, url, **options)
        if delete and (result is None or result.files_to_delete):
            if result is not None:
                size = human_bytes(result.bytes_to_delete)
                run.progress.pause()
                question = f"Delete {result.files_to_delete:,} files ({size}) of {url}?"
                confirm(question, yes=yes, dry_run=False)
            with run.phase("delete", "deleting files"):
                result = executors.vacuum(run.spark, url, **options, dry_run=False)
    _show(state, result, run)
    if result is not None and result.files_failed:
        raise click.exceptions.Exit(1)


def _show(state: State, result: Any, run: SessionRun) -> None:
    for warning in result.warnings:
        click.echo(f"warning: {state.redact(warning)}", err=True)
    report = Explanation(
        result=result.to_dict(), seconds=run.seconds, peak_driver_memory=peak_memory()
    )
    show_report(state, report)
