"""The command's frame: options that every command has, and what becomes of an error.

Commands live in modules of their own that are imported when one of them runs, because they need
the engine and it takes longer to import than `--help` should take to print. Nothing here knows
what a table is.
"""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import traceback
from typing import Any, NoReturn

import click

from lazydelta.cli.later import LaterGroup
from lazydelta.cli.state import State, common_options
from lazydelta.errors import DeltaError

__all__ = ["main"]

_INTERRUPTED = 130
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

_COMMANDS = {
    "info": ("about", "Show what a table is: version, protocol, schema, properties."),
    "files": ("files", "List the files of a table, as they are found."),
    "head": ("read", "Show some rows of a table."),
    "count": ("read", "Count the rows of a table, from its log where that is exact."),
    "partitions": ("read", "List the partitions of a table that have rows."),
    "schema": ("schema", "Show the columns of a table."),
    "changes": ("read", "Show what changed in a table, version by version."),
    "sql": ("sql", "Run a query over tables."),
    "history": ("about", "List the commits of a table, newest first."),
    "explain": ("files", "Run a scan and show what it chose, read and pruned."),
    "spark": ("spark", "Plan, read and write tables with Spark."),
    "create": ("create", "Create a table without rows."),
    "write": ("write", "Write Parquet, CSV or JSON files to a table."),
    "alter": ("alter", "Change columns, properties, constraints or protocol of a table."),
    "checkpoint": ("checkpoint", "Write a checkpoint, or compact commits."),
    "check": ("check", "Judge whether a table can be read and whether its .crc holds."),
}
"""Where each command is, and its line in the help: both without importing it."""


class _Main(LaterGroup):
    """The command itself, where errors end."""

    def main(self, *args: Any, **more: Any) -> Any:
        """Run it, help and version too: those are written before there is a command."""
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
            click.echo(f"error: {_os_text(error)}", err=True)
            sys.exit(1)

    def invoke(self, ctx: click.Context) -> Any:
        """Run a command; whatever goes wrong ends as one line and an exit code."""
        try:
            if sys.stdout is None:  # closed by whoever started us (`>&-`)
                _fail(ctx, "standard output is closed: send it to a file, or to /dev/null")
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except BrokenPipeError:
            _drop_output()
            ctx.exit(0)  # `| head` has what it wanted
        except KeyboardInterrupt:
            _drop_output()
            ctx.exit(_INTERRUPTED)
        except DeltaError as error:
            _fail(ctx, str(error))
        except OSError as error:
            is_full = error.errno in _FULL
            if is_full:
                _drop_output()
            _fail(ctx, _os_text(error), is_expected=is_full)
        except Exception as error:  # noqa: BLE001 - a door: the user gets a line, not a traceback
            _fail(ctx, f"{type(error).__name__}: {error}", is_expected=False)
        return result


@click.group(
    cls=_Main,
    later=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    getattr(sys.modules[__name__.partition(".")[0]], "__version__", "unknown"),
    message="%(prog)s %(version)s",
    prog_name="lazydelta",
)
@common_options
def main() -> None:
    """Look into Delta tables of any size, without loading them.

    URL is a local path or an abfss://, az://, s3://, gs:// or file:// address. Credentials are
    taken from the environment, or from --storage-option. Engine settings are LAZYDELTA_* variables.
    """


def _fail(ctx: click.Context, text: str, *, is_expected: bool = True) -> NoReturn:
    """Say what went wrong on standard error and end with code 1."""
    state = ctx.ensure_object(State)
    if state.verbose:
        click.echo(state.hide(traceback.format_exc()).rstrip(), err=True)
    click.echo(f"error: {state.hide(text)}", err=True)
    if not is_expected and not state.verbose:
        click.echo("This was not expected; run with --verbose for the traceback.", err=True)
    ctx.exit(1)


def _os_text(error: OSError) -> str:
    """Return what the system said; where it names no file, it was standard output."""
    if error.errno in _FULL and error.filename is None:
        return f"cannot write the output: {error.strerror}"
    return f"{type(error).__name__}: {error}"


def _drop_output() -> None:
    """Send what is still buffered nowhere: flushing it at exit would fail again, or wait."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
