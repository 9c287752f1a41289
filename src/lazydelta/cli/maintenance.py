"""`lazydelta vacuum`, `cleanup-log`, `restore`, `repair` and `health`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from lazydelta.cli import tuning
from lazydelta.cli.change_options import confirm
from lazydelta.cli.common_options import State, common_options, pass_state
from lazydelta.cli.output import Output, human_bytes
from lazydelta.cli.progress import Progress
from lazydelta.cli.versions import Time, open_table
from lazydelta.operations.maintenance import SEVERITIES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lazydelta.operations.maintenance import HealthReport, VacuumResult

_yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask; required in a script.")

__all__ = [
    "cleanup_log",
    "health",
    "hours_or_interval",
    "repair",
    "restore",
    "restore_options",
    "vacuum",
    "vacuum_options",
]

F = TypeVar("F", bound=Callable[..., Any])


def vacuum_options(function: F) -> F:
    """Add the options of VACUUM to a command."""

    @click.option(
        "--retention", help="Hours, or an interval such as '7 days'; default: the table's."
    )
    @click.option(
        "--mode",
        type=click.Choice(["lite", "full"]),
        default="lite",
        show_default=True,
        help="lite: files that the log removed. full: list storage, and find others too.",
    )
    @click.option("--where", help="Only partitions that match this predicate.")
    @click.option(
        "--inventory",
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="With --mode full: a Parquet or CSV file of the objects, instead of a listing.",
    )
    @click.option(
        "--keep-version",
        "keep_versions",
        type=click.IntRange(min=0),
        multiple=True,
        help="Keep the files of this version; repeatable.",
    )
    @click.option("--delete/--dry-run", default=False, help="Delete. By default only report.")
    @click.option("--force", is_flag=True, help="Allow a retention below the table's.")
    @click.option("--record/--no-record", default=True, help="Commit VACUUM START and VACUUM END.")
    @_yes_option
    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return cast("F", command)


@click.command()
@click.argument("url")
@vacuum_options
@common_options
@pass_state
def vacuum(
    state: State, /, url: str, *, retention: str | None, delete: bool, yes: bool, **options: Any
) -> None:
    """Delete files of the table at URL that no version inside the retention needs.

    Reports what it would delete and changes nothing, unless --delete is given. The report of a
    deletion is what the store confirmed.
    """
    table = open_table(state, url)
    options["retention"] = hours_or_interval(retention)
    done = 0

    def count(files: int) -> None:
        nonlocal done
        done += files

    with Progress(lambda: (done, "searching"), enabled=not state.quiet):
        plan = table.vacuum(**options) if not (delete and yes) else None
    if plan is not None and (not delete or not plan.files_to_delete):
        _show(state, plan.to_dict(), _vacuum_sentence(plan), plan.paths)
        return
    if plan is not None:
        size = human_bytes(plan.bytes_to_delete)
        confirm(
            f"Delete {plan.files_to_delete:,} files ({size}) of {table.url}?",
            yes=yes,
            dry_run=False,
        )
    with Progress(lambda: (done, "deleting"), enabled=not state.quiet):
        result = table.vacuum(**options, dry_run=False, progress=count)
    _show(state, result.to_dict(), _vacuum_sentence(result), result.failures)
    if result.files_failed:
        raise click.exceptions.Exit(1)


@click.command()
@click.argument("url")
@click.option("--delete/--dry-run", default=False, help="Delete. By default only report.")
@click.option("--force", is_flag=True, help="Ignore delta.enableExpiredLogCleanup.")
@_yes_option
@common_options
@pass_state
def cleanup_log(state: State, /, url: str, *, delete: bool, force: bool, yes: bool) -> None:
    """Delete log files of the table at URL that delta.logRetentionDuration no longer retains.

    Reports what it would delete and changes nothing, unless --delete is given.
    """
    table = open_table(state, url)
    result = table.cleanup_log(dry_run=True, force=force)
    if delete and result.files_to_delete:
        size = human_bytes(result.bytes_to_delete)
        question = f"Delete {result.files_to_delete:,} log files ({size}) of {table.url}?"
        confirm(question, yes=yes, dry_run=False)
        result = table.cleanup_log(force=force)
    verb, count = ("deleted", result.files_deleted) if delete else ("to delete", None)
    count = result.files_to_delete if count is None else count
    sentence = f"{count:,} log files {verb}."
    if result.oldest_version is not None:
        sentence += f" The oldest version is then {result.oldest_version}."
    _show(state, result.to_dict(), f"{sentence} {result.reason}".rstrip())


def restore_options(function: F) -> F:
    """Add the options of RESTORE to a command."""

    @click.option("--version", type=click.IntRange(min=0), help="The version to restore.")
    @click.option("--timestamp", type=Time(), help="The version at this time (ISO 8601; UTC).")
    @click.option("--ignore-missing-files", is_flag=True, help="Leave out files that are gone.")
    @click.option("--protocol-downgrade-allowed", is_flag=True, help="Restore the protocol too.")
    @click.option("--dry-run", is_flag=True, help="Check and report only.")
    @functools.wraps(function)
    def command(*args: Any, **options: Any) -> Any:
        return function(*args, **options)

    return cast("F", command)


@click.command()
@click.argument("url")
@restore_options
@common_options
@pass_state
def restore(
    state: State,
    /,
    url: str,
    *,
    version: int | None,
    timestamp: datetime | None,
    dry_run: bool,
    **options: Any,
) -> None:
    """Make an older version of the table at URL the newest one, as a new commit."""
    if (version is None) == (timestamp is None):
        raise click.UsageError("give either --version or --timestamp")
    table = open_table(state, url)
    result = table.restore(version, timestamp, dry_run=dry_run, **options)
    added, removed = (result.metrics[f"num{kind}Files"] for kind in ("Restored", "Removed"))
    files = f"{added:,} files restored, {removed:,} removed"
    sentence = f"Version {result.version} has the state of {result.restored_version}: {files}."
    if not result.committed:
        sentence = f"Nothing was committed: {files}."
    _show(state, result.to_dict(), sentence, result.missing_files)


@click.command()
@click.argument("url")
@click.option("--commit/--dry-run", default=False, help="Commit. By default only report.")
@click.option("--open-files", is_flag=True, help="Open every file, to find damaged ones too.")
@_yes_option
@common_options
@pass_state
def repair(state: State, /, url: str, *, commit: bool, open_files: bool, yes: bool) -> None:
    """Remove files from the log of the table at URL that do not exist any more.

    Reports them and changes nothing, unless --commit is given. Their rows are lost.
    """
    table = open_table(state, url)
    result = table.repair(open_files=open_files)
    if commit and result.files_missing:
        confirm(f"Remove {result.files_missing:,} files from {table.url}?", yes=yes, dry_run=False)
        result = table.repair(open_files=open_files, dry_run=False)
    verb = "removed from the log" if result.committed else "missing or damaged"
    sentence = f"{result.files_missing:,} of {result.files_checked:,} files {verb}."
    _show(state, result.to_dict(), sentence, result.paths)


@click.command()
@click.argument("url")
@click.option(
    "--fail-on",
    type=click.Choice(SEVERITIES[1:]),
    help="Exit with code 1 if a finding is at least this severe.",
)
@common_options
@pass_state
@click.pass_context
def health(ctx: click.Context, state: State, /, url: str, *, fail_on: str | None) -> None:
    """Show what the table at URL needs: files, partitions, statistics, log, checkpoint.

    Reads the log once, and no data file. Each finding has the call that cures it.
    """
    table = open_table(state, url)
    with Progress(lambda: (0, "reading the log"), enabled=not state.quiet):
        report = table.health()
    output = Output(json=state.json)
    if output.json:
        output.document(report.to_dict())
    elif output.is_terminal:
        _show_health(output, report)
    else:
        output.table((), [(f.severity, f.check, f.message, f.cure) for f in report.findings])
    worst = SEVERITIES.index(report.severity)
    ctx.exit(1 if fail_on is not None and worst >= SEVERITIES.index(fail_on) else 0)


def _show_health(output: Output, report: HealthReport) -> None:
    files = report.facts["files"]
    output.facts({
        "table": report.table,
        "version": report.version,
        "files": files["count"],
        "size": human_bytes(files["bytes"]),
        "verdict": report.severity,
    })  # fmt: skip
    output.title("findings")
    rows = [(f.severity, f.check, f.message, f.cure, f.cost) for f in report.findings]
    output.table(("severity", "check", "finding", "cure", "cost"), rows)


def hours_or_interval(value: str | None) -> float | str | None:
    """Return hours as a number, an interval as it is."""
    try:
        return value if value is None else float(value)
    except ValueError:
        return value


def _vacuum_sentence(result: VacuumResult) -> str:
    if result.dry_run:
        size = human_bytes(result.bytes_to_delete)
        return f"{result.files_to_delete:,} files ({size}) to delete; --delete deletes them."
    failed = f", {result.files_failed:,} failed" if result.files_failed else ""
    size = human_bytes(result.bytes_deleted)
    gone = " or already gone" if result.may_have_been_gone else ""
    return f"{result.files_deleted:,} files ({size}) deleted{gone}{failed}."


def _show(
    state: State, values: Mapping[str, Any], sentence: str, paths: Sequence[str] = ()
) -> None:
    """Print a result: JSON, a sentence with some paths for a terminal, or lines for a pipe."""
    output = Output(json=state.json)
    if output.json:
        output.document(values)
    elif output.is_terminal:
        for path in paths[: tuning.SHOWN_PATHS]:
            output.print(f"  {path}")
        if len(paths) > tuning.SHOWN_PATHS:
            output.print(f"  ... and {len(paths) - tuning.SHOWN_PATHS:,} more")
        output.print(sentence)
    else:
        output.flat(values)
    for warning in values.get("warnings", ()) if not state.quiet else ():
        click.echo(f"warning: {state.redact(warning)}", err=True)
