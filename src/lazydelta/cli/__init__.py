"""The `lazydelta` command: parses arguments, calls the library, prints results."""

from __future__ import annotations

from lazydelta.cli.main import main

__all__ = ["main"]
