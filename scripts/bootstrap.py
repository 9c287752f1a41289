"""Make a virtual environment that holds uv, with nothing but a `python3` to start from.

Used by the Makefile: `python3 scripts/bootstrap.py .venv requirements/uv.txt`. Standard library
only. Debian's bare `python3` has no `ensurepip`; then an existing pip (of this Python) fills the
environment from outside, or an existing virtualenv makes it, and failing both the message says
what to install.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

OLDEST = (3, 11)


def main(venv: Path, requirements: Path) -> None:
    """Create `venv` if it is not there, and install the pinned uv into it."""
    if sys.version_info < OLDEST:
        sys.exit(
            f"lazydelta needs Python {OLDEST[0]}.{OLDEST[1]} or newer; {sys.executable} is "
            f"{sys.version.split()[0]}. Name a newer one: make PYTHON=python3.12 ..."
        )
    python = venv / "bin" / "python"
    if _has("ensurepip"):
        _run(sys.executable, "-m", "venv", str(venv))
        pip = [str(python), "-m", "pip"]
    elif _has("pip"):
        _run(sys.executable, "-m", "venv", "--without-pip", str(venv))
        pip = [sys.executable, "-m", "pip", "--python", str(python)]
    elif _has("virtualenv"):
        _run(sys.executable, "-m", "virtualenv", "--quiet", str(venv))
        pip = [str(python), "-m", "pip"]
    else:
        sys.exit(
            f"{sys.executable} has neither ensurepip nor pip, so it cannot fill a virtual "
            "environment. On Debian and Ubuntu: apt-get install python3-venv; then run make again."
        )
    _run(
        *pip, "install", "--quiet", "--disable-pip-version-check", "--require-hashes",
        "--requirement", str(requirements),
    )  # fmt: skip


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None


def _run(*command: str) -> None:
    done = subprocess.run(command, check=False)
    if done.returncode != 0:
        sys.exit(f"failed with exit code {done.returncode}: {' '.join(command)}")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: bootstrap.py VENV UV_REQUIREMENTS")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
