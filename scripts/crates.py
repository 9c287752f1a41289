"""Pins of the native decoder: `native/crates.lock` <-> `native/Cargo.lock`.

Cargo writes the address of the package index into its lock file, once for each crate, and no file
of this repository names an index. So the lock file is kept without these lines; before a build
they are put back, with whichever index this machine's Cargo uses. Versions and checksums stay.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

_NATIVE = Path(__file__).resolve().parent.parent / "native"
_LOCK = _NATIVE / "Cargo.lock"
_KEPT = _NATIVE / "crates.lock"
_SOURCE = re.compile(r'^source = ".*"\n', re.MULTILINE)
_CHECKSUM = re.compile(r"^checksum = ", re.MULTILINE)  # only what comes from an index has one


def _solve(*arguments: str) -> str:
    """Let Cargo choose versions, and return the lock file it writes."""
    command = ["cargo", "generate-lockfile", "--quiet", *arguments]
    subprocess.run(command, cwd=_NATIVE, check=True)
    return _LOCK.read_text()


def restore() -> None:
    """Write the lock file that Cargo builds from."""
    source = _SOURCE.search(_solve())
    if source is None:
        sys.exit("native/Cargo.toml names no crate of an index, so there is nothing to pin")
    _LOCK.write_text(_CHECKSUM.sub(f"{source.group()}checksum = ", _KEPT.read_text()))


def keep() -> None:
    """Move every pin to the newest release that `native/Cargo.toml` allows."""
    _KEPT.write_text(_SOURCE.sub("", _solve()))


def main() -> int:
    """Run the requested command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("restore", "keep"))
    if shutil.which("cargo") is None:
        sys.exit("the native decoder is built by Rust's `cargo`, which is not on the PATH")
    {"restore": restore, "keep": keep}[parser.parse_args().what]()
    return 0


if __name__ == "__main__":
    sys.exit(main())
