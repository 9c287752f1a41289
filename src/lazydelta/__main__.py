"""`python -m lazydelta` is the `lazydelta` command."""

from __future__ import annotations

from lazydelta import cli

if __name__ == "__main__":
    cli.main(prog_name="lazydelta")
