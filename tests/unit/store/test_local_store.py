from __future__ import annotations

import errno
import os
import signal
import stat
import subprocess
import sys
import textwrap
from types import SimpleNamespace

import pytest

from lazydelta.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StoreAccessError,
    StoreError,
    TransientStoreError,
)
from lazydelta.store import local_store, open_store, tuning
from lazydelta.store.local_store import LocalStore


@pytest.fixture
def root(tmp_path):
    directory = tmp_path / "t"
    directory.mkdir()
    (tmp_path / "t-evil").mkdir()
    (tmp_path / "t-evil" / "secret").write_bytes(b"secret")
    return directory


@pytest.fixture
def store(root):
    return LocalStore(root)


def names(directory):
    return [path.name for path in directory.iterdir()]


def paths(batches):
    return [path for batch in batches for path in batch.column("path").to_pylist()]


class TestSymbolicLinks:
    @pytest.mark.parametrize("target", ["../t-evil/secret", "{outside}/secret"])
    def test_a_file_link_out_of_the_root_is_refused(self, store, root, target):
        (root / "link").symlink_to(target.format(outside=root.parent / "t-evil"))
        for read in (store.read, store.head, store.open_input):
            with pytest.raises(StoreAccessError, match="symbolic link"):
                read("link")
        with pytest.raises(PermissionError):
            store.read_ranges("link", [(0, 1)])

    def test_a_directory_link_out_of_the_root_is_refused(self, store, root):
        (root / "d").symlink_to(root.parent / "t-evil")
        with pytest.raises(StoreAccessError):
            store.read("d/secret")
        with pytest.raises(StoreAccessError):
            store.open_input("d/secret")
        with pytest.raises(StoreAccessError):
            store.write("d/new", b"", overwrite=True)
        with pytest.raises(StoreAccessError):
            store.write("d/deeper/new", b"", overwrite=True)
        with pytest.raises(StoreAccessError):
            store.delete(["d/secret"])
        with pytest.raises(StoreAccessError):
            list(store.list_from("d"))
        assert names(root.parent / "t-evil") == ["secret"]

    def test_links_inside_the_root_are_followed(self, store, root):
        store.write("real/a", b"x", overwrite=False)
        (root / "link").symlink_to("real/a")
        (root / "d").symlink_to("real")
        assert store.read("link") == b"x"
        assert store.read("d/a") == b"x"
        assert store.open_input("link").read() == b"x"
        assert paths(store.list_from("d")) == ["d/a"]

    def test_the_root_may_be_a_link(self, store, root):
        store.write("a", b"x", overwrite=False)
        (root.parent / "alias").symlink_to(root)
        assert LocalStore(root.parent / "alias").read("a") == b"x"

    def test_a_dangling_link_is_not_an_object(self, store, root):
        (root / "link").symlink_to("nowhere")
        assert paths(store.list_from("")) == []
        with pytest.raises(ObjectNotFoundError):
            store.read("link")

    def test_a_link_loop_raises(self, store, root):
        (root / "loop").symlink_to("loop")
        with pytest.raises(StoreError):
            store.read("loop")


class TestUnusualFiles:
    @pytest.mark.timeout(10)
    def test_a_pipe_does_not_block(self, store, root):
        os.mkfifo(root / "pipe")
        with pytest.raises(ObjectNotFoundError):
            store.read("pipe")
        with pytest.raises(ObjectNotFoundError):
            store.open_input("pipe")
        assert paths(store.list_from("")) == []

    def test_names_that_are_not_utf8_are_not_listed(self, store, root):
        (root / "a").write_bytes(b"")
        (root / os.fsdecode(b"\xff\xfe")).write_bytes(b"")
        (root / "b\nc").write_bytes(b"")
        assert paths(store.list_from("")) == ["a"]

    def test_a_name_that_is_too_long_raises(self, store):
        with pytest.raises(StoreError, match="too long"):
            store.read("x" * 300)

    def test_a_missing_permission_is_an_access_error(self, store, root, monkeypatch):
        store.write("a", b"x", overwrite=False)

        def refuse(*_):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(local_store.os, "open", refuse)
        with pytest.raises(StoreAccessError, match="permissions"):
            store.read("a")

    def test_a_stale_handle_is_transient(self, store, root, monkeypatch):
        store.write("a", b"x", overwrite=False)

        def fail(*_):
            raise OSError(errno.ESTALE, "Stale file handle")

        monkeypatch.setattr(local_store.os, "open", fail)
        with pytest.raises(TransientStoreError):
            store.read("a")


class TestWrites:
    def test_no_staged_file_remains(self, store, root):
        store.write("d/a", b"x", overwrite=False)
        with pytest.raises(ObjectExistsError):
            store.write("d/a", b"y", overwrite=False)
        store.write("d/a", b"z", overwrite=True)
        assert names(root / "d") == ["a"]

    def test_a_failed_write_leaves_no_file(self, store, root, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(local_store.os, "fsync", full)
        with pytest.raises(StoreError, match="No space"):
            store.write("a", b"x", overwrite=False)
        assert names(root) == []

    def test_permissions_follow_the_umask(self, store, root):
        before = os.umask(0o027)
        try:
            store.write("a", b"x", overwrite=False)
        finally:
            os.umask(before)
        assert stat.S_IMODE((root / "a").stat().st_mode) == 0o640

    @pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
    def test_without_hard_links_renameat2_is_used(self, store, root, monkeypatch, code):
        def no_links(*_):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(local_store.os, "link", no_links)
        store.write("a", b"first", overwrite=False)
        with pytest.raises(ObjectExistsError):
            store.write("a", b"second", overwrite=False)
        assert store.read("a") == b"first"
        assert names(root) == ["a"]

    def test_without_hard_links_and_renameat2_a_write_fails(self, store, root, monkeypatch):
        def no_links(*_):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(local_store.os, "link", no_links)
        monkeypatch.setattr(local_store.ctypes, "CDLL", lambda *_, **__: object())
        with pytest.raises(StoreError, match="neither hard links"):
            store.write("a", b"x", overwrite=False)
        assert names(root) == []

    def test_a_successful_link_with_a_lost_reply_counts(self, store, monkeypatch):
        link = os.link

        def lost_reply(*arguments):
            link(*arguments)
            raise FileExistsError(errno.EEXIST, "File exists")

        monkeypatch.setattr(local_store.os, "link", lost_reply)
        store.write("a", b"mine", overwrite=False)
        assert store.read("a") == b"mine"

    def test_data_is_synced_before_the_link_and_the_directory_after(self, store, monkeypatch):
        steps = []
        for name in ("fsync", "link"):
            real = getattr(os, name)

            def recorded(*arguments, name=name, real=real):
                steps.append(name)
                return real(*arguments)

            monkeypatch.setattr(local_store.os, name, recorded)
        store.write("a", b"x", overwrite=False)
        assert steps == ["fsync", "link", "fsync"]

    @pytest.mark.parametrize("has_sync_file_range", [True, False])
    def test_writeback_starts_while_an_output_is_written(
        self, has_sync_file_range, store, root, monkeypatch
    ):
        started = []
        calls = (
            {"sync_file_range": lambda *arguments: started.append(arguments)}
            if has_sync_file_range
            else {}
        )
        monkeypatch.setattr(tuning, "WRITEBACK_BYTES", 10)
        monkeypatch.setattr(local_store.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(**calls))
        output = store.open_output("new")
        for at in range(5):
            output.file.write(b"%d" % at * 6)
            assert len(started) == ((at + 1) // 2 if has_sync_file_range else 0)
        output.publish()
        assert (root / "new").read_bytes() == b"000000111111222222333333444444"

    def test_a_removed_directory_is_created_again(self, store, root):
        store.write("d/a", b"x", overwrite=False)
        store.delete(["d/a"])
        (root / "d").rmdir()
        assert paths(store.list_from("d")) == []
        store.write("d/a", b"y", overwrite=False)
        assert store.read("d/a") == b"y"

    def test_a_file_in_place_of_a_directory_raises(self, store):
        store.write("a", b"x", overwrite=False)
        with pytest.raises(StoreError):
            store.write("a/b", b"y", overwrite=False)

    def test_a_killed_writer_leaves_no_partial_file(self, store, root):
        """Kill writers at random moments: each object is absent or complete."""
        program = textwrap.dedent("""
            import sys
            from lazydelta.store import open_store
            store = open_store(sys.argv[1])
            print("ready", flush=True)
            for number in range(10**6):
                store.write(f"d/{number:06d}", b"%06d" % number * 20000, overwrite=False)
        """)
        with subprocess.Popen(
            [sys.executable, "-c", program, str(root)],
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        ) as process:
            process.stdout.readline()
            while not (root / "d" / "000020").exists():
                assert process.poll() is None
            process.send_signal(signal.SIGKILL)
        listed = [path for path in paths(store.list_from("d")) if not path.startswith("d/.")]
        assert len(listed) >= 20
        for path in listed:
            assert store.read(path) == path.removeprefix("d/").encode() * 20000


def test_relative_roots_become_absolute(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert LocalStore("t/").root == f"{tmp_path}/t"
    assert LocalStore("./a/../t").root == f"{tmp_path}/t"
    assert open_store("t") == LocalStore(tmp_path / "t")


def test_listing_calls_stat_page_by_page(store, root, monkeypatch):
    for number in range(2500):
        (root / f"{number:05d}").write_bytes(b"")
    pages = store.list_from("")
    assert next(pages).num_rows == 1000
    (root / "02400").unlink()  # deleted before its page is fetched
    assert "02400" not in paths(pages)
