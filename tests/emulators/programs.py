"""Emulators that are built or installed: Azurite with npm, versitygw and fake-gcs-server with Go.

Azurite is installed on first use. The programs in Go take minutes to build, so tests only look them
up: `make test` builds them once, where Go is installed, with `python -m tests.emulators.programs`.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".cache"
_AZURITE = "azurite@3.35.0"
_GO_PROGRAMS = {
    "versitygw": "github.com/versity/versitygw/cmd/versitygw@v1.8.0",
    "fake-gcs-server": "github.com/fsouza/fake-gcs-server@v1.56.1",
}
_INSTALL_SECONDS = 200
_BUILD_SECONDS = 600


class Unavailable(Exception):  # noqa: N818 - a reason to skip, not an error
    """An emulator that cannot run here."""


def azurite() -> Path:
    """Return the program, installed if necessary."""
    found = shutil.which("azurite-blob")
    if found:
        return Path(found)
    program = CACHE / "azurite" / "node_modules" / ".bin" / "azurite-blob"
    if not program.exists():
        _install_azurite()
    return program


def go_program(name: str) -> Path:
    """Return a program that was built before."""
    if found := shutil.which(name):
        return Path(found)
    program = _go_target(name)
    if not program.exists():
        raise Unavailable(f"{name} is not built: make emulators builds it, with Go")
    return program


def build_go_programs() -> list[str]:
    """Build what is missing; return why not, for each program that could not be built."""
    problems = []
    for name in _GO_PROGRAMS:
        try:
            go_program(name)
        except Unavailable:
            try:
                _build(name)
            except Unavailable as reason:
                problems.append(str(reason))
    return problems


def _go_target(name: str) -> Path:
    return CACHE / "go" / _GO_PROGRAMS[name].rpartition("@")[2] / name


def _build(name: str) -> None:
    """Build beside the cache and rename, so that two builds do not collide."""
    go = shutil.which("go")
    if go is None:
        raise Unavailable(f"{name} needs Go: install it, then run make emulators")
    target = _go_target(name)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as staging:
        # Never another toolchain than the installed one.
        environment = {**os.environ, "GOBIN": staging, "GOTOOLCHAIN": "local"}
        run([go, "install", _GO_PROGRAMS[name]], name, _BUILD_SECONDS, env=environment)
        Path(staging, name).rename(target)


def _install_azurite() -> None:
    """Install beside the cache and rename it, so that two sessions do not collide."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        raise Unavailable("Azurite needs Node.js: install node and npm, and it is fetched from npm")
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE, prefix="azurite-") as staging:
        command = [
            npm,
            *("install", "--prefix", staging, "--no-package-lock", "--no-audit", "--no-fund"),
            *("--no-save", "--fetch-retries=1", "--fetch-timeout=30000", _AZURITE),
        ]
        run(command, _AZURITE, _INSTALL_SECONDS)
        target = CACHE / "azurite" / "node_modules"
        if not target.exists():
            target.parent.mkdir(exist_ok=True)
            with contextlib.suppress(OSError):  # another session installed it first
                Path(staging, "node_modules").rename(target)


def run(command: list[str], name: str, seconds: int, env: dict[str, str] | None = None) -> None:
    """Run an installer; `Unavailable` has its reason if it fails."""
    tool = Path(command[0]).name
    try:
        done = subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired:
        raise Unavailable(f"{tool} did not install {name} in {seconds} s") from None
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if "downloading" not in line]
        last = lines[-1] if lines else "no reason given"
        reason = next((line for line in lines if line.startswith("npm err")), last)
        raise Unavailable(f"{tool} could not install {name}: {reason}")


if __name__ == "__main__":
    for problem in build_go_programs():
        print(problem, file=sys.stderr)  # noqa: T201 - a program
