"""Symlink manifests: a line for each live file, by partition; none of what is gone."""

from __future__ import annotations

import pytest

import lazydelta as ld
from lazydelta.errors import UnsupportedOperationError


def lines(table, directory=""):
    return (table / "_symlink_format_manifest" / directory / "manifest").read_text().splitlines()


def live(table, path):
    files = ld.Table.open(path).scan(table).files()
    return sorted(f"file://{path}/{file.path}" for file in files)


def test_the_manifest_of_a_table_lists_its_live_files(tmp_path):
    for number in range(3):
        ld.write(tmp_path, {"id": [number]})
    table = ld.Table.open(tmp_path)
    table.delete("id = 1")
    assert table.generate_manifest() == ["_symlink_format_manifest/manifest"]
    assert lines(tmp_path) == live(None, tmp_path)
    assert len(lines(tmp_path)) == 2
    table.delete()
    table.generate_manifest()
    assert lines(tmp_path) == []


def test_each_partition_has_a_manifest_until_it_is_empty(tmp_path):
    ld.write(tmp_path, {"id": [1, 2, 3], "p": ["a b", "x/y", None]}, partition_by="p")
    table = ld.Table.open(tmp_path)
    directories = ["p=__HIVE_DEFAULT_PARTITION__", "p=a b", "p=x%2Fy"]
    assert table.generate_manifest() == [
        f"_symlink_format_manifest/{directory}/manifest" for directory in directories
    ]
    assert lines(tmp_path, "p=x%2Fy") == live("p = 'x/y'", tmp_path)
    table.delete("p = 'a b'")
    table.generate_manifest()
    found = (tmp_path / "_symlink_format_manifest").rglob("manifest")
    assert sorted(file.parent.name for file in found) == [directories[0], directories[2]]


def test_files_that_other_engines_would_read_wrongly_have_no_manifest(tmp_path):
    table = ld.Table.create(
        tmp_path / "vectors", "id bigint", properties={"delta.enableDeletionVectors": "true"}
    )
    table.write({"id": [1, 2]})
    table.delete("id = 1")
    with pytest.raises(UnsupportedOperationError, match="purge the table first"):
        table.generate_manifest()
    table.purge()
    assert table.generate_manifest()
    mapped = ld.Table.create(
        tmp_path / "mapped", "id bigint", properties={"delta.columnMapping.mode": "name"}
    )
    with pytest.raises(UnsupportedOperationError, match="column mapping"):
        mapped.generate_manifest()
