"""`python -m lazydelta`, and the entry point of the `lazydelta` command.

Ctrl-C ends the process at once and quietly, also while modules are still being imported.

Two settings of the process take a tenth off a short command:

- Modules live until the process ends, so the garbage collector runs rarely, and not at exit.
- No command multiplies matrices, so numpy does not start the threads of OpenBLAS.
"""

from __future__ import annotations

import gc
import os
import sys

_INTERRUPTED = 130
_OBJECTS_PER_COLLECTION = 100_000  # a short command creates about 70,000

gc.set_threshold(_OBJECTS_PER_COLLECTION)
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

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
    finally:
        gc.freeze()


if __name__ == "__main__":
    main()
