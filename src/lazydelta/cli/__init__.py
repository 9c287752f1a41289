"""The `lazydelta` command: parse the arguments, call, show. Knows nothing of how files are found."""

from lazydelta.cli.main import main

__all__ = ["main"]
