"""Flight over TLS: the server proves itself, and clients do where the configuration demands it."""

from __future__ import annotations

import hashlib

import pytest

import lazydelta.flight
from lazydelta.errors import ConfigError, ServerConnectionError, UnauthenticatedError
from lazydelta.serving import ScanService, ServeConfig
from lazydelta.serving.config import Endpoint, PrincipalEntry, TableEntry, TlsFiles
from lazydelta.serving.flight_server import FlightDoor
from tests.builders import TableBuilder
from tests.serving.flight_servers import CAPABLE, flight_door
from tests.serving.test_tls import certificate


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    directory = tmp_path_factory.mktemp("flight-tls")
    authority = certificate(directory, "authority")
    for name in ("server", "reader"):
        certificate(directory, name, authority)
    certificate(directory, "other")
    TableBuilder(directory / "table").commit("+a")
    return directory


def configured(files, **more):
    tls = TlsFiles(certificate=str(files / "server.pem"), key=str(files / "server.key"), **more)
    digest = hashlib.sha256(b"token").hexdigest()
    return ServeConfig(
        tables=(TableEntry(name="t", url=str(files / "table"), principals=("reader",)),),
        principals=(PrincipalEntry(name="reader", token_sha256=(digest,)),),
        tls=tls,
        flight=Endpoint(host="localhost", port=0),
    )


def count(door, **options):
    with lazydelta.flight.connect(door.uri, timeout=5, **options) as connection:
        return sum(
            batch.num_rows for batch in connection.table("t").scan().file_batches(records=CAPABLE)
        )


def test_a_client_reads_from_a_server_that_it_trusts(files):
    with flight_door(configured(files)) as door:
        assert door.uri.startswith("grpc+tls://localhost:")
        trusted = {"root_certificates": files / "authority.pem"}
        assert count(door, token="token", **trusted) == 1
        with pytest.raises(UnauthenticatedError):
            count(door, **trusted)
        with pytest.raises(ServerConnectionError):
            count(door, token="token", root_certificates=files / "other.pem")


def test_a_client_must_present_a_certificate_where_it_is_demanded(files):
    config = configured(files, client_ca=str(files / "authority.pem"))
    with flight_door(config) as door:
        known = {"root_certificates": files / "authority.pem", "token": "token"}
        own = (files / "reader.pem", files / "reader.key")
        assert count(door, client_certificate=own, **known) == 1
        with pytest.raises(ServerConnectionError):
            count(door, **known)
        foreign = (files / "other.pem", files / "other.key")
        with pytest.raises(ServerConnectionError):
            count(door, client_certificate=foreign, **known)


def test_tls_files_that_do_not_exist_are_refused(files):
    tls = TlsFiles(certificate=str(files / "none.pem"), key=str(files / "server.key"))
    config = ServeConfig.for_tables({"t": "/t"}, tls=tls, flight=Endpoint(port=0))
    with pytest.raises(ConfigError, match="flight"):
        FlightDoor(ScanService(config)).start()
