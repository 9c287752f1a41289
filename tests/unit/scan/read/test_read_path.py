"""The choice of the read path, without a file."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lazydelta.scan.read.read_path import (
    ReadPath,
    ReadRequest,
    choose_read_path,
    choose_unopened_path,
)

PLAIN = ReadRequest(has_filter=False, has_limit=False, needs_positions=False)
FILTERED = replace(PLAIN, has_filter=True)
LIMITED = replace(PLAIN, has_limit=True)
ROW_IDS = replace(PLAIN, needs_positions=True)


@pytest.mark.parametrize(
    ("request_", "num_files", "has_template", "path"),
    [
        pytest.param(PLAIN, 2, True, ReadPath.SMALL_FILES, id="small-files"),
        pytest.param(FILTERED, 2, False, ReadPath.SMALL_FILES, id="small-files-with-a-filter"),
        pytest.param(PLAIN, 1, True, ReadPath.TEMPLATE, id="template"),
        pytest.param(FILTERED, 1, True, None, id="a-filter-needs-the-footer"),
        pytest.param(PLAIN, 1, False, None, id="no-template"),
    ],
)
def test_path_before_a_file_is_opened(request_, num_files, has_template, path):
    assert choose_unopened_path(request_, num_files, has_template=has_template) is path


@pytest.mark.parametrize(
    ("request_", "file", "path"),
    [
        pytest.param(PLAIN, {}, ReadPath.WHOLE_FILE, id="all-rows"),
        pytest.param(PLAIN, {"views": True}, ReadPath.WHOLE_FILE, id="all-rows-with-views"),
        pytest.param(PLAIN, {"has_deleted_rows": True}, ReadPath.WHOLE_FILE, id="deleted-rows"),
        pytest.param(ROW_IDS, {}, ReadPath.WHOLE_FILE, id="row-ids"),
        pytest.param(
            ROW_IDS, {"has_deleted_rows": True}, ReadPath.FILTERED, id="row-ids-and-deleted-rows"
        ),
        pytest.param(
            replace(ROW_IDS, has_limit=True),
            {"has_deleted_rows": True, "views": True},
            ReadPath.LIMITED,
            id="row-ids-deleted-rows-and-a-limit",
        ),
        pytest.param(LIMITED, {}, ReadPath.LIMITED, id="limit"),
        pytest.param(LIMITED, {"has_deleted_rows": True}, ReadPath.LIMITED, id="limit-and-deleted"),
        pytest.param(LIMITED, {"views": True}, ReadPath.WHOLE_FILE, id="limit-with-views"),
        pytest.param(FILTERED, {}, ReadPath.FILTERED, id="filter"),
        pytest.param(
            FILTERED, {"late_pays": True}, ReadPath.LATE_MATERIALIZATION, id="selective-filter"
        ),
        pytest.param(
            replace(FILTERED, has_limit=True, needs_positions=True),
            {"late_pays": True, "has_deleted_rows": True},
            ReadPath.LATE_MATERIALIZATION,
            id="selective-filter-with-everything",
        ),
        pytest.param(
            replace(FILTERED, has_limit=True), {}, ReadPath.FILTERED, id="filter-and-limit"
        ),
    ],
)
def test_path_of_an_opened_file(request_, file, path):
    facts = {"has_deleted_rows": False, "views": False, "late_pays": False} | file
    assert choose_read_path(request_, **facts) is path
