"""Allowed outcomes of a bad log: every reader raises a typed error, or returns the right files."""

from __future__ import annotations

import pickle
import time

import pytest

from lazydelta.errors import DeltaError, LogCorruptError
from tests.support import READERS

MOST_SECONDS = 20


def refused(store, kind=LogCorruptError, config=None, **facts):
    """Check that every reader raises this error; return the last one."""
    for name, read in READERS.items():
        began = time.monotonic()
        with pytest.raises(DeltaError) as raised:
            read(store, config)
        assert time.monotonic() - began < MOST_SECONDS, name
        error = raised.value
        assert isinstance(error, kind), f"{name}: {error!r}"
        for fact, expected in facts.items():
            stated = getattr(error, fact)
            if fact == "reason" or (fact == "file" and not str(expected).endswith(".json")):
                assert expected in stated, f"{name}: {error}"
            elif fact == "file":
                assert stated == f"_delta_log/{expected}", f"{name}: {error}"
            else:
                assert stated == expected, f"{name}: {error}"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
    return error


def read_rightly(store, expected, config=None):
    """Check that every reader returns exactly these files."""
    for name, read in READERS.items():
        assert sorted(read(store, config)) == sorted(expected), name


def right_or_refused(store, expected, config=None):
    """Check that every reader returns exactly these files or raises a `DeltaError`; return which."""
    outcomes = set()
    for name, read in READERS.items():
        try:
            found = read(store, config)
        except DeltaError as error:
            assert str(error)
            outcomes.add("refused")
            continue
        assert sorted(found) == sorted(expected), name
        outcomes.add("right")
    return outcomes
