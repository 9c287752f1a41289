"""`KEY=VALUE` arguments of commands that take properties and constraints."""

from __future__ import annotations

from typing import Any

import click

__all__ = ["Pair"]


class Pair(click.ParamType):
    """Two texts with an equals sign between them; the second may have more of these."""

    def __init__(self, key: str, value: str) -> None:
        self.name = f"{key}={value}"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        key, sign, text = value.partition("=")
        if not sign or not key.strip():
            self.fail(f"expected {self.name}, not {value!r}", param, ctx)
        return key.strip(), text.strip()
