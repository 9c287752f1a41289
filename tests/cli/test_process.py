"""The command as a subprocess: pipes, signals, exit codes and imports."""

from __future__ import annotations

import csv
import io
import json
import pathlib
import signal
import subprocess
import sys

import pyarrow as pa
import pytest

import lazydelta
from tests.cli.support import big, build, command, environment, run, start

TIMEOUT = 60


def finished(*args):
    return subprocess.run(
        command(*args),
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def test_output_in_a_pipe_is_plain(tmp_path):
    build(tmp_path)
    done = finished("files", tmp_path)
    assert done.returncode == 0
    assert len(done.stdout.splitlines()) == 5
    assert "\x1b" not in done.stdout
    assert done.stderr == ""  # no progress, no summary


def test_long_work_in_a_pipe_shows_no_progress(tmp_path):
    big(tmp_path)
    code = (
        "from lazydelta.cli import tuning as t;"
        "t.PROGRESS_DELAY_SECONDS = 0; t.REDRAW_SECONDS = 0.001;"
        "from lazydelta.cli import main; main(prog_name='lazydelta')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, "explain", str(tmp_path)],
        env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("style", [[], ["--json"], ["--csv"]], ids=["lines", "json", "csv"])
def test_a_closed_pipe_ends_the_command_quietly(tmp_path, style):
    big(tmp_path)
    process = start("files", tmp_path, *style)
    first = process.stdout.readline()
    process.stdout.close()
    assert first
    assert process.wait(TIMEOUT) == 0
    assert process.stderr.read() == b""
    process.stderr.close()


def test_piping_into_head(tmp_path):
    big(tmp_path)
    listing = start("files", tmp_path, "--json")
    head = subprocess.run(
        ["head", "-n", "3"], stdin=listing.stdout, capture_output=True, timeout=TIMEOUT, check=True
    )
    listing.stdout.close()
    assert [json.loads(line)["path"] for line in head.stdout.splitlines()] == [
        f"part-{number:08d}.parquet" for number in range(3)
    ]
    assert listing.wait(TIMEOUT) == 0
    assert listing.stderr.read() == b""
    listing.stderr.close()


def test_lines_are_printed_before_the_scan_ends(tmp_path):
    # Far more than the pipe holds: if the first line needed the last, this would never return.
    big(tmp_path)
    process = start("files", tmp_path)
    assert process.stdout.readline().startswith(b"part-")
    assert process.poll() is None
    assert process.stdout.read().count(b"\n") == 19_999
    assert process.wait(TIMEOUT) == 0
    process.stdout.close()
    process.stderr.close()


def test_an_interrupt_ends_it_with_130_and_no_traceback(tmp_path):
    big(tmp_path)
    process = start("files", tmp_path)
    process.stdout.readline()  # it runs, and now waits for us to read on
    process.send_signal(signal.SIGINT)
    assert process.wait(TIMEOUT) == 130
    assert process.stderr.read() == b""
    process.stdout.close()
    process.stderr.close()


@pytest.mark.parametrize("module", ["click", "pyarrow"])
def test_an_interrupt_while_modules_are_imported_ends_it_with_130(tmp_path, module):
    (tmp_path / f"{module}.py").write_text("raise KeyboardInterrupt")
    path = environment()["PYTHONPATH"]
    done = subprocess.run(
        command("count", tmp_path),
        env=environment() | {"PYTHONPATH": f"{tmp_path}:{path}"},
        capture_output=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


@pytest.mark.parametrize("engine", ["duckdb", "datafusion"])
@pytest.mark.parametrize("place", ["interop.dataset.LazyDataset.scanner", "scan.Scan.to_batches"])
def test_an_interrupt_inside_an_engine_ends_sql_with_130(tmp_path, monkeypatch, engine, place):
    pytest.importorskip(engine)
    lazydelta.write(tmp_path, {"id": [1]})

    def interrupted(*args, **how):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"lazydelta.{place}", interrupted)
    done = run("sql", "select * from t", "--table", f"t={tmp_path}", "--engine", engine)
    assert (done.exit_code, done.stdout, done.stderr) == (130, "", "")


@pytest.mark.parametrize(
    ("args", "code"),
    [(["--help"], 0), (["--version"], 0), (["files", "{missing}"], 1), (["files"], 2)],
    ids=["help", "version", "error", "usage"],
)
def test_exit_codes(tmp_path, args, code):
    done = finished(*(arg.format(missing=tmp_path / "missing") for arg in args))
    assert done.returncode == code
    assert "Traceback" not in done.stderr


def test_a_secret_is_not_shown_even_when_verbose():
    done = finished(
        "files", "s3://bucket/table", "--storage-option", "aws_secret_access_key=hunter2",
        "--storage-option", "nonsense_key=hunter3", "--verbose",
    )  # fmt: skip
    assert done.returncode == 1
    assert "error: " in done.stderr
    assert "hunter" not in done.stdout + done.stderr


# --- what it imports -----------------------------------------------------------------------------

_PROBE = """
import json, sys
from lazydelta.cli import main
try:
    main({args!r}, prog_name="lazydelta")
except SystemExit:
    pass
print("@" + json.dumps(sorted(sys.modules)))
"""


def modules_after(args):
    done = subprocess.run(
        [sys.executable, "-c", _PROBE.format(args=args)],
        env=environment(), capture_output=True, text=True, timeout=TIMEOUT, check=True,
    )  # fmt: skip
    return set(json.loads(done.stdout.rpartition("@")[2]))


@pytest.mark.parametrize("args", [["--help"], ["--version"], ["nosuch"]], ids=lambda args: args[0])
def test_the_root_command_imports_no_engine(args):
    loaded = modules_after(args)
    assert "click" in loaded
    assert not {"pyarrow", "numpy", "obstore", "rich", "orjson", "lazydelta.table"} & loaded


def test_listing_files_in_a_pipe_loads_neither_rich_nor_pandas_nor_a_cloud_client(tmp_path):
    build(tmp_path)
    loaded = modules_after(["files", str(tmp_path)])
    assert "pyarrow" in loaded
    assert not {"rich", "pandas", "obstore"} & loaded


@pytest.mark.skipif(
    not pathlib.Path("/dev/full").exists(), reason="needs /dev/full, a thing of Linux"
)
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_a_failure_to_write_help_is_one_line(option):
    with pathlib.Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command(option), env=environment(), stdout=full, stderr=subprocess.PIPE,
            timeout=TIMEOUT, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "error: cannot write the output: No space left on device"
    ]


@pytest.mark.parametrize(
    ("values", "kind"), [([1, None, 3, None], pa.int64()), ([None, "a", None, 'q"\r\n\r\n'], None)]
)
def test_nulls_of_a_single_column_are_rows_of_csv(tmp_path, values, kind):
    lazydelta.write(tmp_path / "t", pa.table({"x": pa.array(values, kind)}))
    done = subprocess.run(
        command("head", tmp_path / "t", "--csv"),
        env=environment(), capture_output=True, timeout=TIMEOUT, check=True,
    )  # fmt: skip
    read = list(csv.reader(io.StringIO(done.stdout.decode(), newline="")))
    assert read == [["x"], *([""] if value is None else [str(value)] for value in values)]
    (tmp_path / "rows.csv").write_bytes(done.stdout)
    assert finished("write", tmp_path / "again", tmp_path / "rows.csv").returncode == 0
    assert lazydelta.Table.open(tmp_path / "again").to_arrow()["x"].to_pylist() == values


def test_two_tables_of_one_name_are_refused(tmp_path):
    build(tmp_path)
    done = finished("sql", "select 1", "--table", f"t={tmp_path}", "--table", f"t={tmp_path}")
    assert done.returncode == 2
    assert "two tables t" in done.stderr
