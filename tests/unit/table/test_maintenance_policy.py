"""Maintenance policies: every mistake is refused with the path of its key."""

from __future__ import annotations

import json
import sys
from datetime import timedelta

import pytest

import lazydelta as ld
from lazydelta.errors import ConfigError, MissingPackageError
from lazydelta.table import load_policy

COMPLETE = {
    "table_uri": "/lake/t",
    "optimize": {
        "enabled": True,
        "type": "zorder",
        "zorder_cols": ["a", "b.c"],
        "partition_filters": [["day", "=", "2026-01-01"]],
        "target_size_bytes": 1 << 27,
        "writer_properties": {
            "compression": "ZSTD",
            "compression_level": 3,
            "max_row_group_size": 1000,
        },
        "session_state_limits": {"max_spill_size_bytes": 1 << 28},
        "concurrency_assumption": "append_only",
    },
    "vacuum": {
        "enabled": True,
        "mode": "full",
        "dry_run_default": False,
        "retention_period": "interval 8 days",
        "enforce_retention_duration": False,
        "keep_versions": [3, 5],
    },
    "checkpoints": {
        "enabled": False,
        "log_retention": 36,
        "enable_expired_log_cleanup": True,
        "run_cleanup_metadata": False,
    },
}


def changed(path, value):
    """Return the complete policy with one key set."""
    policy = json.loads(json.dumps(COMPLETE))
    *parents, key = path.split(".")
    place = policy
    for parent in parents:
        place = place[parent]
    place[key] = value
    return policy


def test_every_key_is_read():
    (table,) = load_policy(COMPLETE).tables
    assert table.table_uri == "/lake/t"
    assert table.optimize.zorder_cols == ("a", "b.c")
    assert table.optimize.partition_filters == [("day", "=", "2026-01-01")]
    assert table.optimize.writer_properties.compression == "zstd"
    assert table.optimize.session_state_limits.max_spill_size_bytes == 1 << 28
    assert table.vacuum.retention_period == timedelta(days=8)
    assert table.vacuum.keep_versions == (3, 5)
    assert table.checkpoints.log_retention == timedelta(hours=36)
    assert table.deletes_files


def test_the_defaults_delete_no_data_file():
    (table,) = load_policy({"table_uri": "/t", "optimize": {}, "vacuum": {}}).tables
    assert table.optimize.enabled
    assert table.vacuum.dry_run_default
    assert table.vacuum.enforce_retention_duration
    assert table.optimize.concurrency_assumption == "mixed"
    assert table.checkpoints is None
    assert not table.deletes_files


SPILL = "optimize.session_state_limits.max_spill_size_bytes"
TEMPORARY = "optimize.session_state_limits.max_temp_directory_size_bytes"
CODEC = "optimize.writer_properties.compression"


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("vacuums", {}, "is unknown; did you mean vacuum?"),
        ("storage_options", {}, "is unknown; known keys: table_uri, optimize, vacuum, checkpoints"),
        ("table_uri", 5, "must be a string that is not empty, not 5"),
        ("table_uri", " ", "must be a string that is not empty, not ' '"),
        ("optimize", True, "must be a mapping, not True"),
        ("optimize", None, "must be a mapping, not null: leave the key out for its default"),
        ("optimize.enable", True, "is unknown; did you mean enabled?"),
        ("optimize.enabled", "yes", "must be true or false, not 'yes'"),
        ("optimize.type", "z-order", "must be one of compact, zorder, not 'z-order'"),
        ("optimize.type", ["zorder"], "must be one of compact, zorder, not a list"),
        ("optimize.zorder_cols", "a", "must be a list, not 'a'"),
        ("optimize.target_size_bytes", "128MB", "must be an integer >= 1, not '128MB'"),
        ("optimize.target_size_bytes", 0, "must be an integer >= 1, not 0"),
        (
            "optimize.concurrency_assumption",
            "none",
            "must be one of append_only, mixed, not 'none'",
        ),
        ("optimize.writer_properties.page_size", 1, "is unknown; known keys: compression, "),
        (CODEC, "lzo", "must be one of snappy, zstd, gzip, lz4, brotli, none, not 'lzo'"),
        (SPILL, 5, "must be an integer >= 1024, not 5"),
        (TEMPORARY, 1 << 30, "is not supported: temporary disk is not limited."),
        ("vacuum.mode", "quick", "must be one of lite, full, not 'quick'"),
        ("vacuum.retention_period", "a week", "must be hours, or an interval such as '7 days'"),
        ("vacuum.retention_period", True, "must be hours, or an interval such as '7 days'"),
        ("vacuum.retention_period", float("nan"), "must be hours, or an interval such as '7 days'"),
        ("vacuum.retention_period", -1, "cannot be negative: -1"),
        ("vacuum.retention_hours", 1, "is unknown; did you mean retention_period?"),
        ("vacuum.keep_versions", 3, "must be a list, not 3"),
        ("checkpoints.log_retention", "1 month", "must be hours, or an interval such as '7 days'"),
        ("checkpoints.run_cleanup", True, "is unknown; did you mean run_cleanup_metadata?"),
        ("optimize.partition_filters", 7, "must be a SQL predicate, or a list of [column,"),
    ],
)
def test_a_mistake_is_refused_with_its_key(path, value, message):
    with pytest.raises(ConfigError) as caught:
        load_policy(changed(path, value))
    assert str(caught.value).startswith(f"{path}: {message}")


@pytest.mark.parametrize(
    ("path", "value", "setting"),
    [
        ("optimize.zorder_cols", [], "optimize.zorder_cols"),
        ("optimize.zorder_cols", ["a", 1], "optimize.zorder_cols[1]"),
        ("optimize.type", "compact", "optimize.zorder_cols"),
        ("vacuum.keep_versions", [1, -1], "vacuum.keep_versions[1]"),
        ("optimize.partition_filters", "day =", "optimize.partition_filters"),
        ("optimize.partition_filters", [["day", "~", "x"]], "optimize.partition_filters"),
        ("optimize.partition_filters", [5], "optimize.partition_filters"),
    ],
)
def test_a_mistake_inside_a_value_is_refused(path, value, setting):
    with pytest.raises(ConfigError) as caught:
        load_policy(changed(path, value))
    assert caught.value.setting == setting


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([], "policy: must be a mapping, not a list"),
        ({}, "table_uri: is missing"),
        ({"table": "/t"}, "table: is unknown; did you mean tables?"),
        ({"tables": []}, "tables: must have at least one table"),
        ({"tables": {}}, "tables: must be a list, not a dict"),
        ({"tables": [{"table_uri": "/t"}, 5]}, "tables[1]: must be a mapping, not 5"),
        ({"tables": [{"vacuum": {}}]}, "tables[0].table_uri: is missing"),
        ({"tables": [{"table_uri": "/t", "vacuum": {"mod": 1}}]}, "tables[0].vacuum.mod: is unkn"),
        ({"tables": [], "vacuum": {}}, "vacuum: is unknown; known keys: tables"),
    ],
)
def test_a_policy_of_the_wrong_shape_is_refused(policy, message):
    with pytest.raises(ConfigError) as caught:
        load_policy(policy)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize(
    ("filters", "same"),
    [
        ("day = '2026-01-01'", "day = '2026-01-01'"),
        ([["day", "=", "x"], ["hour", "in", ["1"]]], [("day", "=", "x"), ("hour", "in", ["1"])]),
        ([[["day", "=", "x"]], [["day", "=", "y"]]], [[["day", "=", "x"]], [["day", "=", "y"]]]),
        ({"day": "x"}, {"day": "x"}),
    ],
)
def test_filters_of_a_file_are_those_of_deltalake(filters, same):
    (table,) = load_policy(changed("optimize.partition_filters", filters)).tables
    assert table.optimize.partition_filters == same


TOML = """
[[tables]]
table_uri = "/lake/a"
[tables.vacuum]
retention_period = "14 days"
[[tables]]
table_uri = "/lake/b"
"""
YAML = """
tables:
  - table_uri: /lake/a
    vacuum: {retention_period: 14 days}
  - table_uri: /lake/b
"""
JSON = """{"tables": [{"table_uri": "/lake/a", "vacuum": {"retention_period": 336}},
                       {"table_uri": "/lake/b"}]}"""


@pytest.mark.parametrize(
    ("name", "content"),
    [("p.toml", TOML), ("p.json", JSON), ("p.yaml", YAML), ("p.yml", YAML)],
)
def test_the_same_policy_in_every_format(tmp_path, name, content):
    if name.endswith("ml") and name != "p.toml":
        pytest.importorskip("yaml")
    (tmp_path / name).write_text(content)
    first, second = load_policy(tmp_path / name).tables
    assert (first.table_uri, second.table_uri) == ("/lake/a", "/lake/b")
    assert first.vacuum.retention_period == timedelta(days=14)
    assert load_policy(str(tmp_path / name)) == load_policy(tmp_path / name)


@pytest.mark.parametrize("name", ["p.toml", "p.json", "p.yaml"])
def test_a_file_that_cannot_be_parsed_is_refused(tmp_path, name):
    if name == "p.yaml":
        pytest.importorskip("yaml")
    (tmp_path / name).write_text("{ a: [")
    kind = name.partition(".")[2].upper()
    with pytest.raises(ConfigError, match=f"is not valid {kind}: "):
        load_policy(tmp_path / name)


def test_a_file_of_another_kind_or_none_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"must end in one of \.json, \.toml, \.yaml, \.yml"):
        load_policy(tmp_path / "p.ini")
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        ld.maintain(tmp_path / "p.json")


def test_yaml_without_pyyaml_names_the_cure(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "p.yaml").write_text(YAML)
    with pytest.raises(MissingPackageError, match=r"pip install pyyaml.*JSON and TOML need no"):
        load_policy(tmp_path / "p.yaml")
