"""`KEY=VALUE` arguments of commands: properties, constraints, settings of stores and of Spark."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Pair"]


class Pair(click.ParamType):
    """Two texts with an equals sign between them; the second may have more of these.

    Args:
        key: What the first is called in help texts.
        value: What the second is called.
        prefix: What the first must begin with.
        like: An example for the error, which then does not repeat the text: it may be a secret.
    """

    def __init__(self, key: str, value: str, *, prefix: str = "", like: str = "") -> None:
        self.name = f"{key}={value}"
        self._prefix = prefix
        self._like = like

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, sign, text = value.partition("=")
        if not sign or not key.strip() or not key.strip().startswith(self._prefix):
            shown = f", as in {self._like}" if self._like else f", not {value!r}"
            self.fail(f"expected {self.name}{shown}", param, ctx)
        return key.strip(), text.strip()
