"""Requirement files, Makefile and bootstrap script."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import lazydelta

ROOT = Path(__file__).parent.parent
PINNED = ["run", "bench", "test", "dev", "lowest", "spark35", "spark40", "spark41", "java", "uv"]


def pins(name):
    """Return {requirement with its version and marker: its hashes} of a compiled file."""
    text = (ROOT / "requirements" / f"{name}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    found = {}
    for entry in "\n".join(lines).replace("\\\n", " ").splitlines():
        requirement, *hashes = re.split(r"\s+--hash=", entry.strip())
        found[requirement] = tuple(hashes)
    return found


@pytest.mark.parametrize("name", PINNED)
def test_every_requirement_is_pinned_by_hash(name):
    assert pins(name)
    for requirement, hashes in pins(name).items():
        assert re.match(r"[a-z0-9-]+==\S+", requirement), requirement
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", digest) for digest in hashes), requirement


@pytest.mark.parametrize("name", ["run", "bench", "test"])
def test_requirement_sets_are_compatible(name):
    # Environment markers may differ between the sets.
    here, dev = (
        {(requirement.split(" ;")[0], hashes) for requirement, hashes in pins(which).items()}
        for which in (name, "dev")
    )
    assert here - dev == set()


def test_core_dependencies_are_pinned():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    declared = {re.match(r"[a-z0-9-]+", text)[0] for text in project["dependencies"]}
    assert declared <= {requirement.split("==")[0] for requirement in pins("run")}


def test_no_file_names_a_package_index():
    files = [*(ROOT / "requirements").iterdir(), ROOT / "pyproject.toml", ROOT / "Makefile"]
    assert len(files) > len(PINNED)
    guilty = [
        f"{path.name}: {line}"
        for path in files
        for line in path.read_text(encoding="utf-8").splitlines()
        if "://" in line or re.search(r"--(extra-)?index-url|--find-links", line.split("#")[0])
    ]
    # The Makefile names the two options that keep such lines out of the compiled files.
    assert [line for line in guilty if "--no-emit-" not in line] == []


def test_no_lock_file_is_committed():
    done = subprocess.run(
        ["git", "ls-files", "uv.lock", "*/uv.lock", "package-lock.json"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        pytest.skip("not a git working tree")
    assert done.stdout == ""


def test_no_symbolic_link_is_committed():
    done = subprocess.run(
        ["git", "ls-files", "--stage"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        pytest.skip("not a git working tree")
    assert [line for line in done.stdout.splitlines() if line.startswith("120000")] == []


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert lazydelta.__version__ == project["version"]
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_package_is_marked_as_typed():
    assert (ROOT / "src" / "lazydelta" / "py.typed").exists()


def test_help_lists_every_target():
    done = subprocess.run(
        ["make", "--no-print-directory", "help"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    phony = set(re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split())
    assert set(re.findall(r"^  make ([a-z0-9-]+) ", done.stdout, re.MULTILINE)) == phony


# --- scripts/bootstrap.py: it meets Pythons that lack the usual parts ------------------------------


@pytest.fixture
def bootstrap(monkeypatch):
    path = ROOT / "scripts" / "bootstrap.py"
    spec = importlib.util.spec_from_file_location("bootstrap", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    commands = []
    monkeypatch.setattr(module, "_run", lambda *command: commands.append(" ".join(command)))
    module.commands = commands
    return module


@pytest.mark.parametrize(
    ("present", "makes", "fills"),
    [
        ({"ensurepip", "pip"}, "-m venv v", "v/bin/python -m pip install"),
        ({"pip"}, "-m venv --without-pip v", "-m pip --python v/bin/python install"),
        ({"virtualenv"}, "-m virtualenv --quiet v", "v/bin/python -m pip install"),
    ],
    ids=["a-full-python", "debian-with-pip-but-no-ensurepip", "virtualenv-only"],
)
def test_bootstrap_uses_the_available_tools(bootstrap, monkeypatch, present, makes, fills):
    monkeypatch.setattr(bootstrap, "_has", present.__contains__)
    bootstrap.main(Path("v"), Path("uv.txt"))
    assert [makes in bootstrap.commands[0], fills in bootstrap.commands[1]] == [True, True]
    assert "--require-hashes" in bootstrap.commands[1]


def test_bootstrap_explains_a_python_without_venv(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap, "_has", lambda _: False)
    with pytest.raises(SystemExit, match="apt-get install python3-venv"):
        bootstrap.main(Path("v"), Path("uv.txt"))
    assert bootstrap.commands == []


def test_bootstrap_refuses_an_old_python(bootstrap, monkeypatch):
    monkeypatch.setattr(bootstrap, "OLDEST", (sys.version_info[0], sys.version_info[1] + 1))
    with pytest.raises(SystemExit, match="or newer"):
        bootstrap.main(Path("v"), Path("uv.txt"))
