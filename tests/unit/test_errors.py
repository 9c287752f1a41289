from __future__ import annotations

import dataclasses
import pickle

import pytest

from lazydelta import errors
from lazydelta.errors import DeltaError, LogCorruptError, redact

KINDS = [
    getattr(errors, name)
    for name in errors.__all__
    if isinstance(getattr(errors, name), type) and getattr(errors, name) is not DeltaError
]
SECRET = "https://a.blob.core.windows.net/c/t?sv=1&sig=SECRET&x=1"


def example(kind):
    """Return an error of a kind with plausible facts, secrets among them."""
    given = {}
    for field in dataclasses.fields(kind):
        if field.default is not dataclasses.MISSING and field.name not in ("reason", "where"):
            continue
        kinds = str(field.type)
        if field.name == "kind":
            given[field.name] = "not-yet"
        elif "tuple" in kinds:
            given[field.name] = (1, 2) if "int" in kinds else ("a", "b")
        elif "float" in kinds:
            given[field.name] = 1.5
        elif "int" in kinds:
            given[field.name] = 3
        else:
            given[field.name] = SECRET
    return kind(**given)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_pickles_and_keeps_its_facts(kind):
    error = example(kind)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert str(copy) == str(error)
    for field in dataclasses.fields(kind):
        assert getattr(copy, field.name) == getattr(error, field.name)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_an_error_is_a_delta_error_and_a_builtin_one_with_a_message(kind):
    error = example(kind)
    assert isinstance(error, DeltaError)
    builtin = [k for k in kind.__mro__ if k.__module__ == "builtins"]
    assert builtin[0] is not Exception, "no caller could catch it without importing lazydelta"
    assert len(str(error)) > 10
    assert kind.__doc__


def test_a_conflict_says_what_the_other_commit_did():
    error = errors.ConcurrentAppendError("t", 3, "WRITE", "2 files")
    assert "files were added to what it read: 2 files" in str(error)
    assert error.retryable


def test_the_message_of_a_corrupt_log_names_file_version_and_line():
    error = LogCorruptError("/t", "_delta_log/7.json", "oops", 7, 3)
    text = str(error)
    assert "7.json, line 3 (version 7): oops" in text
    assert "Restore" in text


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (SECRET, "x=1"),
        ("see https://h/p?X-Amz-Signature=SECRET&X-Amz-Date=SECRET2 now", "now"),
        ("s3://user:SECRET@bucket/x", "bucket/x"),
        ("https://h/?token=SECRET", "https://h/"),
    ],
)
def test_secrets_of_urls_are_blotted_out(text, kept):
    assert "SECRET" not in redact(text)
    assert kept in redact(text)


@pytest.mark.parametrize(
    "kind",
    [k for k in KINDS if "table" in {f.name for f in dataclasses.fields(k)}],
    ids=lambda kind: kind.__name__,
)
def test_an_address_in_an_error_shows_no_secret(kind):
    error = example(kind)
    safe = {}
    for field in dataclasses.fields(kind):
        value = getattr(error, field.name)
        is_free = isinstance(value, str) and "Literal" not in str(field.type)
        is_free = is_free and field.name not in ("table", "kind")
        safe[field.name] = "plain" if is_free else value
    assert "SECRET" not in str(kind(**safe))
