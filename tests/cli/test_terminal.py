"""Terminal output: tables, and progress of long operations."""

from __future__ import annotations

import builtins
import io
import os
import re
import subprocess
import sys
import time

import pyarrow as pa
import pytest

import lazydelta
from lazydelta.cli import tuning
from lazydelta.cli.output import Output, human_bytes
from lazydelta.cli.progress import Progress
from tests.cli.support import build, command, environment

pty = pytest.importorskip("pty", reason="terminals are a thing of Unix")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def on_a_terminal(*args, **more):
    """Run the command with a terminal for its output; return all that it wrote there."""
    ours, theirs = pty.openpty()
    env = environment(TERM="xterm", COLUMNS="100", **more)
    done = subprocess.Popen(command(*args), env=env, stdout=theirs, stderr=theirs)
    os.close(theirs)
    seen = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        seen += piece
    os.close(ours)
    assert done.wait(60) == 0, seen
    return plain(seen.decode()).replace("\r\n", "\n")


def plain(text):
    """Return the text without colours and erased lines; other sequences stay."""
    return re.sub(r"\x1b\[[0-9;]*[mK]", "", text)


@pytest.fixture
def table(tmp_path):
    build(tmp_path).crc()
    return tmp_path


def test_files_have_a_heading_and_a_summary(table):
    text = on_a_terminal("files", table)
    assert re.search(r"SIZE +MODIFIED \(UTC\) +PATH\n", text)
    assert "day=2026-01-03/e  (1 rows deleted)" in text
    assert re.search(r"5 files in \d", text)
    assert "\t" not in text


def test_a_quiet_list_has_no_summary(table):
    assert "files in" not in on_a_terminal("files", table, "--quiet")


def test_no_files_is_reported_on_a_terminal(table):
    assert "no files" in on_a_terminal("files", table, "--where", "day = '1999-01-01'")


def test_info_is_a_page(table):
    text = on_a_terminal("info", table)
    assert re.search(r"version +3\n", text)
    assert re.search(r"files +5, .* \(from the checksum\)", text)
    assert re.search(r"day +date +yes +yes", text)
    assert "delta.enableDeletionVectors" in text


def test_history_explain_and_check_on_a_terminal(table):
    assert re.search(r"version +time \(UTC\) +operation", on_a_terminal("history", table))
    assert re.search(r"strategy +forward", on_a_terminal("explain", table, "--strategy", "forward"))
    assert re.search(r"decision +readable", on_a_terminal("check", table))


def test_json_on_a_terminal_is_indented(table):
    assert '\n  "version": 3' in on_a_terminal("info", table, "--json")


def without_rich(monkeypatch):
    real = builtins.__import__

    def guarded(name, *args, **kwargs):
        assert not name.startswith("rich"), "rich was imported"
        return real(name, *args, **kwargs)

    monkeypatch.setattr("importlib.util.find_spec", lambda _: None)
    monkeypatch.setattr(builtins, "__import__", guarded)


@pytest.mark.parametrize("has_rich", [True, False], ids=["with-rich", "without-rich"])
def test_tables_have_the_same_cells_with_and_without_rich(monkeypatch, has_rich):
    if has_rich:
        pytest.importorskip("rich")
    else:
        without_rich(monkeypatch)
    monkeypatch.setattr(sys, "stdout", Terminal())
    monkeypatch.setenv("COLUMNS", "60")
    Output(json=False).table(("name", "what"), [("[b]x", "y" * 30), ("a\x1b[2J", None)])
    text = plain(sys.stdout.getvalue())
    assert "[b]x" in text
    assert "y" * 30 in text
    assert "\\x1b[2J" in text
    assert "\x1b[2J" not in text
    assert max(map(len, text.splitlines())) <= 60


def test_sizes():
    assert [human_bytes(n) for n in (None, 0, 1023, 1024, 1 << 60)] == [
        "-", "0 B", "1023 B", "1.0 KiB", "1024.0 PiB",
    ]  # fmt: skip


# --- progress ------------------------------------------------------------------------------------


@pytest.fixture
def impatient(monkeypatch):
    monkeypatch.setattr(tuning, "PROGRESS_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(tuning, "REDRAW_SECONDS", 0.005)


def wait_for(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_progress_shows_files_rate_and_phase_and_is_erased(monkeypatch, impatient):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(lambda: (1234, "reading commits")):
        wait_for(sys.stderr.getvalue)
    text = sys.stderr.getvalue()
    assert re.search(r"reading commits: 1,234 files, [\d,]+/s, \d", text)
    assert text.endswith("\r\x1b[K")


def test_progress_is_erased_before_output(monkeypatch, impatient):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(lambda: (1, "x")) as progress:
        wait_for(sys.stderr.getvalue)
        monkeypatch.setattr(tuning, "PROGRESS_DELAY_SECONDS", 1000.0)
        progress.pause()
        before = sys.stderr.getvalue()
        assert before.endswith("\r\x1b[K")
        time.sleep(0.05)
        assert sys.stderr.getvalue() == before


def test_short_work_shows_no_progress(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(tuning, "REDRAW_SECONDS", 0.005)
    with Progress(lambda: (1, "x")):
        time.sleep(0.05)
    assert sys.stderr.getvalue() == ""


@pytest.mark.parametrize(
    ("stream", "enabled"), [(io.StringIO, True), (Terminal, False)], ids=["in-a-pipe", "quiet"]
)
def test_no_progress_without_a_terminal(monkeypatch, impatient, stream, enabled):
    monkeypatch.setattr(sys, "stderr", stream())
    with Progress(lambda: (1, "x"), enabled=enabled):
        time.sleep(0.05)
    assert sys.stderr.getvalue() == ""


def test_wide_rows_are_printed_vertically(tmp_path):
    names = [f"column_{at:02}" for at in range(20)]
    rows = pa.table({name: [f"value {name}", None] for name in names})
    lazydelta.write(tmp_path / "wide", rows)
    lines = on_a_terminal("head", tmp_path / "wide").splitlines()
    assert [line for line in lines if line.startswith("row ")] == ["row 1", "row 2"]
    for name in names:
        assert f"  {name}  value {name}" in lines
        assert f"  {name}  null" in lines
    narrow = on_a_terminal("head", tmp_path / "wide", "--columns", "column_00,column_01")
    assert "value column_01" in narrow
    assert "row 1" not in narrow


def test_long_strings_are_truncated_beside_other_columns(tmp_path):
    lazydelta.write(tmp_path / "long", pa.table({"id": [1], "text": ["x" * 500]}))
    shown = on_a_terminal("head", tmp_path / "long")
    assert "x" * 39 + "…" in shown
    assert "x" * 40 not in shown
