"""Fixtures of every test: a clean environment, hypothesis profiles and a check for leaked threads."""

from __future__ import annotations

import gc
import os
import threading
import time
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings

# No deadline: machines differ too much in speed. In CI the examples are the same in every run;
# elsewhere they vary, and a failure prints how to reproduce it.
settings.register_profile(
    "default",
    deadline=None,
    max_examples=50,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True)
settings.register_profile("long", settings.get_profile("default"), max_examples=5000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)

# The JVMs of Spark live for seconds or minutes here: the optimizing compiler costs more CPU time
# than it saves. A caller may override it.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# Settings and credentials of the caller must not reach the tests: a test that needs one sets it.
# Instance metadata lookups are off, since tests never use the network.
_FOREIGN_PREFIXES = ("LAZYDELTA_", "AWS_", "AZURE_", "GOOGLE_", "GCS_", "OBJECT_STORE_")
_LEAK_GRACE_SECONDS = 5.0


@pytest.hookimpl(tryfirst=True)  # before pytest deselects by mark
def pytest_collection_modifyitems(items):
    """Run the slow files first, and of a sampled test only some cases.

    Slow files first, because short ones fill the gaps at the end of a parallel run.
    """
    items.sort(key=lambda item: "spark" not in item.path.parts)
    cases = Counter()
    for item in items:
        if (sample := item.get_closest_marker("sample")) is not None:
            test = item.nodeid.partition("[")[0]
            if cases[test] % sample.args[0]:
                item.add_marker("long")
            cases[test] += 1


@pytest.fixture(autouse=True, scope="session")
def _clean_environment_of_processes():
    """Clean the environment of processes that outlive a test, such as Java and Spark workers."""
    with pytest.MonkeyPatch.context() as patch:
        _clean(patch)
        yield


@pytest.fixture(autouse=True)
def _clean_environment(monkeypatch):
    _clean(monkeypatch)


def _clean(patch):
    for name in [name for name in os.environ if name.startswith(_FOREIGN_PREFIXES)]:
        patch.delenv(name)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(autouse=True)
def _no_leaked_threads():
    """Fail a test that leaves a thread of the engine running."""
    before = set(threading.enumerate())
    yield
    if not (leaked := _engine_threads() - before):
        return
    gc.collect()  # finalizers close iterators that the test dropped without closing
    deadline = time.monotonic() + _LEAK_GRACE_SECONDS
    while (leaked := _engine_threads() - before) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not leaked, f"threads still running after the test: {sorted(t.name for t in leaked)}"


def _engine_threads():
    """Return the threads of calls; the event loop of requests lives as long as the process."""
    return {
        thread
        for thread in threading.enumerate()
        if thread.name.startswith("lazydelta-") and thread.name != "lazydelta-requests"
    }
