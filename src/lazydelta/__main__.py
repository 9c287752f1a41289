"""`python -m lazydelta`, and the entry point of the `lazydelta` command.

Ctrl-C ends the process at once and quietly, also while modules are still being imported.
"""

from __future__ import annotations

import os
import sys

_INTERRUPTED = 130

try:
    from lazydelta import cli
except KeyboardInterrupt:
    os._exit(_INTERRUPTED)

__all__ = ["main"]


def main() -> None:
    """Run the command."""
    try:
        cli.main(prog_name="lazydelta")
    except SystemExit as end:
        if end.code != _INTERRUPTED:
            raise
        sys.stderr.flush()
        # Python itself ends with the signal if the interrupt was raised in dynamic code.
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
