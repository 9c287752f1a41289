"""`delta_scan_lazy`, the function of the original design."""

from __future__ import annotations

from pathlib import Path

import pytest

from lazydelta import Table

OK, STOPPED, INVALID_ARGUMENT, NOT_FOUND, FAILED_PRECONDITION, DATA_LOSS = 0, 1, -3, -5, -9, -15


def scan(driver, table, predicate="NULL", limit=0, stop_after=0, **environment):
    """Return the files, the status and the name of the error's class."""
    *files, end = driver.run("lazy", table, predicate, limit, stop_after, **environment)
    status, kind = end.partition("|")[0].split(" ")[1:]
    return [line.split(" ", 2)[2] for line in files], int(status), kind


def test_every_live_file_is_passed_with_its_uri_and_size(driver, files_table):
    *lines, end = driver.run("lazy", files_table, "", 0, 0)
    files = Table.open(files_table).scan().files()
    expected = [f"file {file.size} {Path(file.uri).as_uri()}" for file in files]
    assert sorted(lines) == sorted(expected)
    assert len(lines) == 10
    assert end == "status 0 |"


def test_a_callback_that_returns_false_ends_the_scan(driver, files_table):
    files, status, _ = scan(driver, files_table, stop_after=4)
    assert (len(files), status) == (4, STOPPED)


def test_a_limit_is_the_maximum_number_of_files(driver, files_table):
    files, status, _ = scan(driver, files_table, limit=3)
    assert (len(files), status) == (3, OK)


@pytest.mark.parametrize(
    "predicate",
    [
        pytest.param('{"day": "2026-05-02", "hour": 1}', id="an-equality-map"),
        pytest.param('[["day", ">", "2026-05-01"], ["hour", "<", 2]]', id="conditions-of-a-list"),
        pytest.param('[[["day", "=", "2026-05-02"], ["hour", "in", [1, 7]]]]', id="lists-of-lists"),
        pytest.param("\"day = date'2026-05-02' and hour = 1\"", id="a-string-of-sql"),
    ],
)
def test_a_predicate_skips_files(driver, partitioned_table, predicate):
    files, status, _ = scan(driver, partitioned_table, predicate)
    assert ([name.rpartition("/")[2] for name in files], status) == (["late"], OK)


@pytest.mark.parametrize(
    ("predicate", "kind"),
    [
        ('{"nothing": 1}', "ColumnNotFoundError"),
        ("{day", "ConfigError"),
        ("7", "PredicateError"),
        ('"day ="', "PredicateError"),
        ('[["day", "near", 1]]', "PredicateError"),
    ],
)
def test_an_invalid_predicate_is_refused_by_name(driver, partitioned_table, predicate, kind):
    assert scan(driver, partitioned_table, predicate) == ([], INVALID_ARGUMENT, kind)


def test_a_table_that_does_not_exist_is_not_found(driver, tmp_path):
    assert scan(driver, tmp_path / "none") == ([], NOT_FOUND, "TableNotFoundError")


def test_a_path_that_is_not_utf8_is_an_invalid_argument(driver):
    assert scan(driver, "/tables/\udcff") == ([], INVALID_ARGUMENT, "ConfigError")


def test_damage_in_the_log_is_a_status_after_the_files_before_it(driver, files_table, tmp_path):
    log = tmp_path / "_delta_log"
    log.mkdir()
    for file in (files_table / "_delta_log").iterdir():
        is_damaged = file.suffix == ".parquet"
        (log / file.name).write_bytes(b"damaged" if is_damaged else file.read_bytes())
    (log / "00000000000000000000.json").unlink()
    _, status, kind = scan(driver, tmp_path)
    assert (status, kind) == (DATA_LOSS, "LogCorruptError")


def test_files_that_need_more_than_a_path_are_refused(driver, table_with_vectors):
    assert scan(driver, table_with_vectors) == ([], FAILED_PRECONDITION, "ClientCapabilityError")


def test_an_error_message_has_the_problem_and_no_secret(driver):
    table = "https://account.blob.core.windows.net/lake/t?sig=secret"
    (end,) = driver.run("lazy", table, "7", 0, 0)
    assert "secret" not in end


def test_a_host_without_lazydelta_says_which_python_it_ran(driver, files_table):
    _, status, kind = scan(driver, files_table, LIBLAZYDELTA_PYTHON="/nowhere/python")
    assert (status, kind) == (-14, "WorkerStartError")
    _, status, kind = scan(driver, files_table, LIBLAZYDELTA_PYTHON="/bin/false")
    assert (status, kind) == (-14, "WorkerStartError")
