"""`KEY=VALUE` arguments: properties, constraints, options of stores and of Spark."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["KeyValue"]


class KeyValue(click.ParamType):
    """A key and a value, separated by the first equals sign.

    Args:
        key: The name of the key in help.
        value: The name of the value in help.
        prefix: The required prefix of the key.
        example: An example for the error, which then omits the argument: it may be a secret.
    """

    def __init__(self, key: str, value: str, *, prefix: str = "", example: str = "") -> None:
        self.name = f"{key}={value}"
        self._prefix = prefix
        self._example = example

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, sign, item = value.partition("=")
        if not sign or not key.strip() or not key.strip().startswith(self._prefix):
            hint = f", as in {self._example}" if self._example else f", not {value!r}"
            self.fail(f"expected {self.name}{hint}", param, ctx)
        return key.strip(), item.strip()
