from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace

import pytest

from lazydelta import Config, ReadOptions, WriteOptions
from lazydelta.errors import ConfigError


def test_the_environment_is_read_by_type():
    config = Config.from_env(
        {
            "LAZYDELTA_BATCH_ROWS": "7",
            "LAZYDELTA_ENABLE_FALLBACK": "False",
            "LAZYDELTA_USE_LOG_COMPACTION": "1",
            "LAZYDELTA_TRIPWIRE": "strict",
            "LAZYDELTA_REMOVE_SET_FALSE_POSITIVE_RATE": "0.5",
            "LAZYDELTA_ALLOWED_ROOTS": "/a,s3://b/c",
            "OTHER": "x",
        }
    )
    assert config.batch_rows == 7
    assert config.enable_fallback is False
    assert config.use_log_compaction is True
    assert config.tripwire == "strict"
    assert config.remove_set_false_positive_rate == 0.5
    assert config.allowed_roots == ("/a", "s3://b/c")
    assert Config.from_env({}) == Config()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LAZYDELTA_BATCH_ROWZ", "7"),
        ("LAZYDELTA_OBSERVER", "print"),
        ("LAZYDELTA_BATCH_ROWS", "many"),
        ("LAZYDELTA_BATCH_ROWS", "0"),
        ("LAZYDELTA_ENABLE_FALLBACK", "maybe"),
        ("LAZYDELTA_TRIPWIRE", "loose"),
    ],
)
def test_an_unknown_setting_is_an_error_that_names_it(name, value):
    with pytest.raises(ConfigError) as raised:
        Config.from_env({name: value})
    assert raised.value.setting.upper().removeprefix("LAZYDELTA_") == name.removeprefix(
        "LAZYDELTA_"
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"batch_rows": 0},
        {"commit_read_parallelism": 0},
        {"remove_set_memory_limit": -1},
        {"remove_set_false_positive_rate": 0},
        {"remove_set_false_positive_rate": 1},
        {"max_json_depth": 1},
        {"tripwire": ""},
        {"batch_rows": "5"},
        {"batch_rows": True},
        {"commit_seconds": float("nan")},
        {"retry_cap_seconds": "2"},
        {"request_deadline_seconds": 0},
        {"request_deadline_seconds": "60"},
        {"enable_fallback": "no"},
        {"observer": "print"},
        {"read": {"batch_rows": 5}},
        {"write": None},
        {"allowed_roots": "/lake"},
        {"allowed_roots": [None]},
    ],
)
def test_values_that_could_only_fail_later_are_refused(wrong):
    with pytest.raises(ConfigError) as raised:
        Config(**wrong)
    assert raised.value.setting in wrong


@pytest.mark.parametrize(
    ("kind", "wrong"),
    [
        (ReadOptions, {"schema": {"id": "int"}}),
        (ReadOptions, {"file_column_name": 5}),
        (WriteOptions, {"compression_level": "most"}),
    ],
)
def test_options_of_another_kind_are_refused(kind, wrong):
    with pytest.raises(ConfigError) as raised:
        kind(**wrong)
    assert raised.value.setting in wrong


def test_environment_errors_name_the_allowed_values_and_the_nearest_setting():
    with pytest.raises(ConfigError, match="did you mean LAZYDELTA_BATCH_ROWS"):
        Config.from_env({"LAZYDELTA_BATCH_ROWZ": "7"})
    with pytest.raises(ConfigError, match="must be an integer, not 'many'"):
        Config.from_env({"LAZYDELTA_BATCH_ROWS": "many"})


def test_a_config_is_changed_by_replacing_it():
    config = Config()
    with pytest.raises(FrozenInstanceError):
        config.batch_rows = 1
    assert replace(config, batch_rows=1).batch_rows == 1
    with pytest.raises(ConfigError):
        replace(config, batch_rows=0)


def test_every_field_has_a_docstring():
    from inspect import getsource

    source = getsource(Config)
    for field in fields(Config):
        after = source.split(f"    {field.name}: ", 1)[1].split("\n", 2)
        assert after[1].strip().startswith('"""'), field.name


def test_variables_of_the_tests_are_no_settings():
    variables = {"LAZYDELTA_GOLDEN": "/golden", "LAZYDELTA_TEST_EXAMPLES": "7"}
    assert Config.from_env(variables) == Config()


def test_a_key_from_the_environment_is_base64_and_never_shown():
    key = Config.from_env({"LAZYDELTA_RESUME_KEY": "c2VjcmV0"})
    assert key.resume_key == b"secret"
    assert "secret" not in repr(key)
    with pytest.raises(ConfigError, match="must be Base64") as raised:
        Config.from_env({"LAZYDELTA_RESUME_KEY": "s3cr3t!"})
    assert "s3cr3t" not in str(raised.value)
    with pytest.raises(ConfigError, match="must be bytes"):
        Config(resume_key="text")
