"""One Azurite and one moto per session; every test gets its own prefix."""

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


@pytest.fixture(params=["azurite", "moto"])
def emulator(request):
    """Each emulator in turn."""
    return request.getfixturevalue(request.param)


@pytest.fixture
def emulated_table(emulator):
    """A function that uploads a local table and returns `(url, options)` for `Table.open`."""

    def upload(local_dir):
        url = f"{emulator.url}/{uuid.uuid4().hex}/a table"
        servers.upload_table(url, emulator.options, local_dir)
        return url, emulator.options

    return upload


def _running(start):
    try:
        with start() as emulator:
            yield emulator
    except servers.Unavailable as reason:
        pytest.skip(str(reason))
