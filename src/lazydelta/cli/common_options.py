"""Options and logging that all commands share.

The common options may precede or follow the command. Values of storage options are passed to the
store and never printed.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import click

from lazydelta.cli.key_value import KeyValue
from lazydelta.errors import redact

__all__ = ["State", "common_options", "pass_state"]

_MIN_SECRET_LENGTH = 4

F = TypeVar("F", bound=Callable[..., Any])


@dataclass
class State:
    """The common options, as parsed so far."""

    storage_options: dict[str, str] = field(default_factory=dict, repr=False)
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    flags: dict[str, str] = field(default_factory=dict)
    """The options of the command that runs, by parameter name: errors name them."""

    def redact(self, message: str) -> str:
        """Redact a message: secrets of URLs, and values of storage options.

        A store may repeat a value that it rejects. Very short values are not redacted: they are no
        secrets, and every `1` of a message would disappear.
        """
        for value in sorted(self.storage_options.values(), key=len, reverse=True):
            if len(value) >= _MIN_SECRET_LENGTH and value.lower() not in ("true", "false"):
                message = message.replace(value, "***")
        return redact(message)


pass_state = click.make_pass_decorator(State, ensure=True)


def common_options(function: F) -> F:
    """Add the common options to a command; they are stored in its `State`."""

    @click.option("--verbose", is_flag=True, help="Log to standard error; show tracebacks.")
    @click.option("--quiet", is_flag=True, help="No progress, no warnings, no summary.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON; lists have one line each.")
    @click.option(
        "--storage-option",
        "storage_options",
        type=KeyValue("KEY", "VALUE", example="region=eu-west-1"),
        multiple=True,
        help="An option of the object store; repeatable. Prefer the environment for secrets.",
    )
    @click.pass_context
    @functools.wraps(function)
    def command(
        ctx: click.Context,
        /,
        *args: Any,
        storage_options: tuple[tuple[str, str], ...],
        as_json: bool,
        quiet: bool,
        verbose: bool,
        **kwargs: Any,
    ) -> Any:
        state = ctx.ensure_object(State)
        state.storage_options.update(storage_options)
        state.json |= as_json
        state.quiet |= quiet
        state.verbose |= verbose
        state.flags = {
            str(param.name): param.opts[-1]
            for param in ctx.command.params
            if isinstance(param, click.Option)
        }
        _log_to_stderr(ctx.find_root(), state)
        return ctx.invoke(function, *args, **kwargs)

    return command  # type: ignore[return-value]


class _StderrHandler(logging.Handler):
    """Writes redacted records to the current standard error."""

    def __init__(self, state: State) -> None:
        super().__init__()
        self._state = state

    def emit(self, record: logging.LogRecord) -> None:
        click.echo(self._state.redact(self.format(record)), err=True)


class _Formatter(logging.Formatter):
    """`warning: message`; with `--verbose` also time and module."""

    def __init__(self, *, verbose: bool) -> None:
        super().__init__("%(asctime)s %(name)s: %(message)s" if verbose else "%(message)s")
        self._verbose = verbose

    def format(self, record: logging.LogRecord) -> str:
        message = super().format(record)
        return message if self._verbose else f"{record.levelname.lower()}: {message}"


def _log_to_stderr(root: click.Context, state: State) -> None:
    """Log to standard error at the requested level until the command ends."""
    logger = logging.getLogger(__name__.partition(".")[0])
    handler: _StderrHandler | None = root.meta.get(__name__)
    if handler is None:
        handler = root.meta[__name__] = _StderrHandler(state)
        logger.addHandler(handler)
        root.call_on_close(functools.partial(logger.removeHandler, handler))
        root.call_on_close(functools.partial(logger.setLevel, logger.level))
    handler.setFormatter(_Formatter(verbose=state.verbose))
    level = logging.DEBUG if state.verbose else logging.ERROR if state.quiet else logging.WARNING
    logger.setLevel(level)
