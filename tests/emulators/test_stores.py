"""`StoreContract` for object stores, against emulators on loopback."""

from __future__ import annotations

import os
import re
import uuid

import obstore.store
import pytest

import lazydelta
from lazydelta.errors import ObjectNotFoundError, StoreAccessError, StoreError
from lazydelta.store import open_store
from lazydelta.store.diagnosis import check_store
from lazydelta.store.layers.metered_store import MeteredStore
from lazydelta.testing import FaultProxy, ProxyFault, StoreContract
from tests.emulators import servers

pytestmark = pytest.mark.emulator


class TestEmulators(StoreContract):
    secrets = (
        "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq",
        "the-emulated-secret",
    )

    @pytest.fixture
    def store(self, emulator):
        return open_store(f"{emulator.url}/{uuid.uuid4().hex}/a%20table/", emulator.options)


@pytest.fixture
def store(emulator):
    return open_store(f"{emulator.url}/{uuid.uuid4().hex}", emulator.options)


def test_a_missing_bucket_is_named(emulator):
    store = open_store(f"{emulator.url}-missing/t", emulator.options)
    with pytest.raises(ObjectNotFoundError, match="lake-missing/t"):
        list(store.list_from("_delta_log"))


def test_a_wrong_key_is_not_shown(azurite):
    key = "c2VjcmV0" * 10 + "c2VjcmU="
    store = open_store("az://lake/t", {**azurite.options, "account_key": key})
    with pytest.raises(StoreAccessError, match="credentials") as raised:
        store.read("a")
    assert key not in f"{raised.value} {raised.value!r}"


def test_a_connection_string_opens_the_same_container(azurite):
    text = (
        f"DefaultEndpointsProtocol=http;AccountName={azurite.options['account_name']};"
        f"AccountKey={azurite.options['account_key']};BlobEndpoint={azurite.endpoint};"
    )
    path = uuid.uuid4().hex
    open_store(f"az://lake/{path}", azurite.options).write("a", b"x", overwrite=False)
    again = open_store(f"az://lake/{path}", {"connection_string": text})
    assert bytes(again.read("a")) == b"x"


def test_options_from_the_environment(moto, monkeypatch):
    path = uuid.uuid4().hex
    open_store(f"s3://lake/{path}", moto.options).write("a", b"x", overwrite=False)
    for key, value in moto.options.items():
        monkeypatch.setenv(key.upper() if key.startswith("AWS") else "AWS_ALLOW_HTTP", value)
    assert bytes(open_store(f"s3a://lake/{path}").read("a")) == b"x"


def test_an_unreachable_server_is_a_transient_error(moto):
    options = {**moto.options, "AWS_ENDPOINT_URL": "http://127.0.0.1:9", "max_retries": "0"}
    store = open_store("s3://lake/t", options)
    with pytest.raises(StoreError, match="s3://lake/t/a") as raised:
        store.read("a")
    assert type(raised.value).__name__ == "TransientStoreError"
    assert "Debug source" not in str(raised.value)


def test_range_reads_transfer_only_the_ranges(store):
    store.write("a", bytes(10_000_000), overwrite=True)
    metered = MeteredStore(store)
    with metered.open_input("a", size=10_000_000) as file:
        file.read_at(1000, 5_000_000)
    assert metered.bytes_read == 1000
    assert metered.requests_by_operation() == {"open": 0, "read": 1}


@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_store_used_before_a_fork_fails_in_the_child(store):
    store.write("a", b"x", overwrite=True)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            store.read("a")
        except StoreError as error:
            code = 0 if "spawn" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert bytes(store.read("a")) == b"x"


def test_a_table_directory_can_be_uploaded(emulated_table, tmp_path):
    (tmp_path / "_delta_log").mkdir()
    (tmp_path / "_delta_log" / f"{0:020d}.json").write_bytes(b"{}\n")
    (tmp_path / "x=1 %2F").mkdir()
    (tmp_path / "x=1 %2F" / "p.parquet").write_bytes(b"PAR1")
    url, options = emulated_table(tmp_path)
    store = open_store(url, options)
    assert bytes(store.read(f"_delta_log/{0:020d}.json")) == b"{}\n"
    assert bytes(store.read("x=1 %2F/p.parquet")) == b"PAR1"


def test_a_store_can_be_checked(emulator):
    url = f"{emulator.url}/{uuid.uuid4().hex}"
    report = check_store(url, emulator.options, write=True)
    assert report.ok, report
    assert report.to_dict()["probes"]["conditional put"]["status"] == "ok"
    assert not list(open_store(url, emulator.options).list_from("_lazydelta_check"))


def test_a_credential_signs_requests(azurite, moto):
    path, calls = uuid.uuid4().hex, []

    def azure():
        calls.append("azure")
        return {"account_key": azurite.options["account_key"]}

    def s3():
        calls.append("s3")
        return {
            "access_key_id": moto.options["AWS_ACCESS_KEY_ID"],
            "secret_access_key": moto.options["AWS_SECRET_ACCESS_KEY"],
        }

    for emulator, credential in ((azurite, azure), (moto, s3)):
        keys = ("account_key", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
        options = {name: value for name, value in emulator.options.items() if name not in keys}
        url = f"{emulator.url}/{path}"
        lazydelta.write(url, {"id": [1, 2]}, storage_options=options, credential=credential)
        table = lazydelta.Table.open(url, options, credential=credential)
        assert table.to_arrow()["id"].to_pylist() == [1, 2]
    assert calls == ["azure", "azure", "s3", "s3"]


def test_a_connection_string_of_the_environment(azurite, monkeypatch):
    path = uuid.uuid4().hex
    open_store(f"az://lake/{path}", azurite.options).write("a", b"x", overwrite=False)
    text = (
        f"AccountName={azurite.options['account_name']};BlobEndpoint={azurite.endpoint};"
        f"AccountKey={azurite.options['account_key']}"
    )
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", text)
    assert bytes(open_store(f"az://lake/{path}").read("a")) == b"x"


def test_a_shallow_clone_reads_its_source(emulator):
    """The source is in the same account and bucket, or it has options of its own."""
    base = f"{emulator.url}/{uuid.uuid4().hex}"
    source = lazydelta.Table.open(f"{base}/source", emulator.options)
    source.write({"id": [1, 2]})
    (file,) = source.scan().files()
    log = f"_delta_log/{0:020d}.json"
    commit = bytes(open_store(source.url, emulator.options).read(log)).decode()
    clone = commit.replace(f'"{file.path}"', f'"{source.url}/{file.path}"')
    assert clone != commit
    store = open_store(f"{base}/clone", emulator.options)
    store.write(log, clone.encode(), overwrite=False)
    for roots in ([source.url], {source.url: {}}, {source.url: emulator.options}):
        config = lazydelta.Config(allowed_roots=roots)
        table = lazydelta.Table.open(store.root, emulator.options, config)
        assert table.to_arrow()["id"].to_pylist() == [1, 2]


def test_each_root_of_a_clone_has_its_own_options(moto):
    """Neither bucket is requested with the options of the other; a passing fault is retried."""
    name = uuid.uuid4().hex
    servers.create_bucket(moto.endpoint, "other")
    source = lazydelta.Table.open(f"s3://other/{name}", moto.options)
    source.write({"id": [1, 2]})
    (file,) = source.scan().files()
    log = f"_delta_log/{0:020d}.json"
    commit = bytes(open_store(source.url, moto.options).read(log)).decode()
    clone = commit.replace(f'"{file.path}"', f'"{source.url}/{file.path}"').encode()
    open_store(f"s3://lake/{name}", moto.options).write(log, clone, overwrite=False)
    busy = ProxyFault(action="answer", status=503, path=r"\.parquet$", times=2)
    with FaultProxy(moto.endpoint) as own, FaultProxy(moto.endpoint) as other:
        other.inject(busy)
        options = {"AWS_ACCESS_KEY_ID": "other-id", "AWS_SECRET_ACCESS_KEY": "other-secret"}
        options = {**moto.at(other.endpoint).options, **options, "max_retries": "0"}
        config = lazydelta.Config(allowed_roots={source.url: options})
        table = lazydelta.Table.open(f"s3://lake/{name}", moto.at(own.endpoint).options, config)
        assert table.to_arrow()["id"].to_pylist() == [1, 2]
        for proxy, bucket in ((own, "lake"), (other, "other")):
            targets = [request.target for request in proxy.requests()]
            assert targets
            assert all(re.match(rf"/{bucket}[/?]", target) for target in targets)
        assert [request.fault for request in other.requests()][:2] == ["answer"] * 2


def test_a_given_client_sends_the_requests(azurite):
    client = obstore.store.AzureStore(
        "lake",
        config={
            "account_name": azurite.options["account_name"],
            "account_key": azurite.options["account_key"],
            "endpoint": azurite.endpoint,
        },
        client_options={"allow_http": True},
    )
    url = f"az://lake/{uuid.uuid4().hex}/a%20table"
    lazydelta.Table.open(url, store=client).write({"id": [1, 2]})
    assert lazydelta.Table.open(url, azurite.options).to_arrow()["id"].to_pylist() == [1, 2]
