"""The root command: common options, and exit codes of errors.

Commands are modules that are imported when they run: they need the engine, which takes longer to
import than `--help` should take to print.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from typing import Any, NoReturn

import click

from lazydelta.cli.common_options import State, common_options
from lazydelta.cli.flags import format_error
from lazydelta.cli.lazy_group import LazyGroup
from lazydelta.errors import DeltaError

__all__ = ["main"]

_INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_COMMANDS = {
    "info": ("info", "Show version, protocol, schema and properties of a table."),
    "files": ("files", "List the live files of a table."),
    "head": ("read", "Show the first rows of a table."),
    "count": ("read", "Count the rows of a table, from the log where that is exact."),
    "partitions": ("read", "List the partitions of a table that have rows."),
    "schema": ("schema", "Show the columns of a table."),
    "changes": ("read", "Show the change data feed of a table."),
    "sql": ("sql", "Run a SQL statement: a query, DELETE, UPDATE, INSERT or MERGE."),
    "history": ("history", "List the commits of a table, newest first."),
    "explain": ("files", "Run a scan and show its plan, reads and pruning."),
    "spark": ("spark", "Plan, read and write tables with Spark."),
    "create": ("create", "Create an empty table."),
    "write": ("write", "Write Parquet, CSV or JSON files to a table."),
    "delete": ("dml", "Delete rows of a table."),
    "update": ("dml", "Change columns of rows of a table."),
    "merge": ("merge", "Merge rows of files or of a table into a table."),
    "alter": ("alter", "Change columns, properties, constraints or protocol of a table."),
    "optimize": ("rewrite", "Compact small files, or cluster rows."),
    "purge": ("rewrite", "Rewrite files with deleted rows or dropped columns."),
    "convert": ("conversion", "Make a table of a directory of Parquet files, in place."),
    "clone": ("conversion", "Create a table with the rows of another."),
    "checkpoint": ("checkpoint", "Write a checkpoint, or compact commits."),
    "vacuum": ("maintenance", "Delete files that no retained version needs."),
    "cleanup-log": ("maintenance", "Delete log files that no retained version needs."),
    "restore": ("maintenance", "Make an older version the newest one."),
    "repair": ("maintenance", "Remove files from the log that do not exist any more."),
    "health": ("maintenance", "Show what a table needs: files, statistics, log, checkpoint."),
    "maintain": ("maintain", "Maintain tables as a policy file says."),
    "serve": ("serve", "Serve tables over HTTP and Arrow Flight."),
    "check": ("check", "Check whether a table can be read, its .crc matches, or its store works."),
}
"""The module and the help line of each command."""


class _Main(LazyGroup):
    """The root command; errors of all commands are handled here."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Run a command, or print help or version, which click does before `invoke`."""
        try:
            try:
                return super().main(*args, **more)
            finally:
                if sys.stdout is not None and not sys.stdout.closed:
                    sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
            sys.exit(0)
        except OSError as error:
            _drop_output()
            click.echo(f"error: {_os_message(error)}", err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; every error becomes one line and an exit code."""
        try:
            if sys.stdout is None:  # closed by the parent process (`>&-`)
                _fail(ctx, "standard output is closed: send it to a file, or to /dev/null")
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _drop_output()
            ctx.exit(0)  # `| head` has enough
        except KeyboardInterrupt:
            _drop_output()
            ctx.exit(_INTERRUPTED)
        except DeltaError as error:
            _fail(ctx, format_error(error, ctx.ensure_object(State).flags))
        except OSError as error:
            is_full = error.errno in _FULL
            if is_full:
                _drop_output()
            _fail(ctx, _os_message(error), is_expected=is_full)
        except Exception as error:  # noqa: BLE001 - the user gets one line, not a traceback
            _fail(ctx, f"{type(error).__name__}: {error}", is_expected=False)
        return result


@click.group(
    cls=_Main,
    lazy_commands=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    getattr(sys.modules[__name__.partition(".")[0]], "__version__", "unknown"),
    message="%(prog)s %(version)s",
    prog_name="lazydelta",
)
@common_options
def main() -> None:
    """Inspect and write Delta tables of any size.

    URL is a local path or an abfss://, az://, s3://, gs:// or file:// address. Credentials come
    from the environment, or from --storage-option. Engine settings are LAZYDELTA_* variables.
    """


def _fail(ctx: click.Context, message: str, *, is_expected: bool = True) -> NoReturn:
    """Print the error to standard error and exit with code 1."""
    state = ctx.ensure_object(State)
    if state.verbose:
        click.echo(state.redact(traceback.format_exc()).rstrip(), err=True)
    click.echo(f"error: {state.redact(message)}", err=True)
    if not is_expected and not state.verbose:
        click.echo("This error is unexpected; run with --verbose for the traceback.", err=True)
    ctx.exit(1)


def _os_message(error: OSError) -> str:
    """Return the message of the system; without a file name it is about standard output."""
    if error.errno in _FULL and error.filename is None:
        return f"cannot write the output: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def _drop_output() -> None:
    """Discard buffered output: flushing it at exit would fail again, or block."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
