"""The `lazydelta` command: parse the arguments, call, show; not how anything is found."""

from __future__ import annotations

from lazydelta.cli.main import main

__all__ = ["main"]
