from __future__ import annotations

import subprocess
import sys

import pytest

from lazydelta.errors import ConfigError
from lazydelta.store import MemoryStore, open_store, register_store, schemes


@pytest.fixture(autouse=True)
def _isolated_registry(monkeypatch):
    monkeypatch.setattr(schemes, "_FACTORIES", dict(schemes._FACTORIES))


@pytest.mark.parametrize(
    ("location", "root"),
    [
        ("/data/trips", "/data/trips"),
        ("/data/trips/", "/data/trips"),
        ("/data//x/../trips", "/data/trips"),
        ("/data/100%25 a", "/data/100%25 a"),
        ("/data/a:b", "/data/a:b"),
        ("file:///data/my%20trips/", "/data/my trips"),
        ("file:///data/100%2525", "/data/100%25"),
        ("file:/data/trips", "/data/trips"),
        ("FILE://localhost/data/trips", "/data/trips"),
        ("file:///data/a#b?c", "/data/a#b?c"),
    ],
)
def test_local_paths_and_urls(location, root):
    assert open_store(location).root == root


def test_a_path_object_is_local(tmp_path):
    assert open_store(tmp_path).root == str(tmp_path)


def test_the_home_directory_is_expanded(monkeypatch):
    monkeypatch.setenv("HOME", "/home/user")
    assert open_store("~/trips").root == "/home/user/trips"


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("", "empty"),
        ("file://host/data", "has a host"),
        ("absfs://lake/t", "did you mean abfs"),
        ("hdfs://name/t", "known are"),
        ("https://example.com/t", "not an Azure storage account"),
        ("s3://lake/t?versionId=1", "%3F"),
        ("s3://lake/t#x", "%23"),
        ("s3:///t", "no valid bucket"),
        ("s3:/lake/t", "no valid bucket"),
        ("s3://lake/a/../b", "segments"),
        ("s3://lake/a//b", "plain relative path"),
        ("gs://user:pw@lake/t", "no valid bucket"),
        ("abfss://lake@evil.example/t", "not an Azure storage account"),
    ],
)
def test_invalid_urls(location, reason):
    with pytest.raises(ConfigError, match=reason) as raised:
        open_store(location)
    assert "pw" not in str(raised.value)


def test_register_store():
    calls = []

    def factory(url, options):
        calls.append((url, dict(options)))
        return MemoryStore(root=url)

    register_store("Lake", factory)
    assert open_store("LAKE://a/b", {"k": "v"}).root == "lake://a/b"
    assert calls == [("lake://a/b", {"k": "v"})]


def test_an_invalid_scheme_is_refused():
    with pytest.raises(ConfigError, match="not a URL scheme"):
        register_store("1x", MemoryStore)


def test_a_local_store_does_not_import_obstore(tmp_path):
    program = f"""
import sys
from lazydelta.store import open_store
store = open_store({str(tmp_path)!r})
store.write("a", b"x", overwrite=False)
store.read("a"), list(store.list_from("")), store.open_input("a").read()
print([name for name in sys.modules if name.split(".")[0] in ("obstore", "pandas")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert (done.stdout.decode().strip(), done.stderr) == ("[]", b"")
