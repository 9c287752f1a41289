"""One server of each emulator per session; every test gets its own prefix."""

from __future__ import annotations

import uuid

import pytest

from tests.emulators import servers


@pytest.fixture(scope="session")
def azurite():
    yield from _running(servers.azurite)


@pytest.fixture(scope="session")
def moto():
    yield from _running(servers.moto)


@pytest.fixture(scope="session")
def versitygw():
    yield from _running(servers.versitygw)


@pytest.fixture(scope="session")
def fake_gcs():
    yield from _running(servers.fake_gcs)


@pytest.fixture(params=["azurite", "moto", "versitygw"])
def emulator(request):
    """Each emulator that can be written to, in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture(params=["azurite", "moto", "versitygw", "fake_gcs"])
def readable_emulator(request):
    """Each emulator in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def emulated_table(readable_emulator):
    """A function that uploads a local table and returns `(url, options)` for `Table.open`."""

    def upload(local_dir):
        url = f"{readable_emulator.url}/{uuid.uuid4().hex}/a table"
        servers.upload_table(url, readable_emulator.options, local_dir)
        return url, readable_emulator.options

    return upload


def _running(start):
    try:
        with start() as emulator:
            yield emulator
    except servers.Unavailable as reason:
        pytest.skip(str(reason))
