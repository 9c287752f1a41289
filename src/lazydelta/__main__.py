"""`python -m lazydelta` is the `lazydelta` command."""

from __future__ import annotations

from lazydelta.cli import main

if __name__ == "__main__":
    main(prog_name="lazydelta")
