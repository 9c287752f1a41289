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
from lazydelta.store import local, open_store
from lazydelta.store.local import LocalStore


@pytest.fixture
def root(tmp_path):
    made = tmp_path / "t"
    made.mkdir()
    (tmp_path / "t-evil").mkdir()
    (tmp_path / "t-evil" / "secret").write_bytes(b"secret")
    return made


@pytest.fixture
def store(root):
    return LocalStore(root)


def names(directory):
    return [path.name for path in directory.iterdir()]


def paths(batches):
    return [path for batch in batches for path in batch.column("path").to_pylist()]


class TestLinks:
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

    def test_links_that_stay_inside_are_followed(self, store, root):
        store.write("real/a", b"x", overwrite=False)
        (root / "link").symlink_to("real/a")
        (root / "d").symlink_to("real")
        assert store.read("link") == b"x"
        assert store.read("d/a") == b"x"
        assert store.open_input("link").read() == b"x"
        assert paths(store.list_from("d")) == ["d/a"]

    def test_a_root_that_is_a_link_is_the_callers_choice(self, store, root):
        store.write("a", b"x", overwrite=False)
        (root.parent / "alias").symlink_to(root)
        assert LocalStore(root.parent / "alias").read("a") == b"x"

    def test_a_link_to_nowhere_is_not_listed_and_not_found(self, store, root):
        (root / "link").symlink_to("nowhere")
        assert paths(store.list_from("")) == []
        with pytest.raises(ObjectNotFoundError):
            store.read("link")

    def test_a_link_to_itself_ends(self, store, root):
        (root / "loop").symlink_to("loop")
        with pytest.raises(StoreError):
            store.read("loop")


class TestOddFiles:
    @pytest.mark.timeout(10)
    def test_a_pipe_is_not_waited_for(self, store, root):
        os.mkfifo(root / "pipe")
        with pytest.raises(ObjectNotFoundError):
            store.read("pipe")
        with pytest.raises(ObjectNotFoundError):
            store.open_input("pipe")
        assert paths(store.list_from("")) == []

    def test_names_that_are_not_text_are_passed_over(self, store, root):
        (root / "a").write_bytes(b"")
        (root / os.fsdecode(b"\xff\xfe")).write_bytes(b"")
        (root / "b\nc").write_bytes(b"")
        assert paths(store.list_from("")) == ["a"]

    def test_a_name_too_long_says_so(self, store):
        with pytest.raises(StoreError, match="too long"):
            store.read("x" * 300)

    def test_no_right_to_read_is_an_access_error(self, store, root, monkeypatch):
        store.write("a", b"x", overwrite=False)

        def refuse(*_):
            raise PermissionError(errno.EACCES, "Permission denied")

        monkeypatch.setattr(local.os, "open", refuse)
        with pytest.raises(StoreAccessError, match="permissions"):
            store.read("a")

    def test_a_stale_handle_may_be_tried_again(self, store, root, monkeypatch):
        store.write("a", b"x", overwrite=False)

        def fail(*_):
            raise OSError(errno.ESTALE, "Stale file handle")

        monkeypatch.setattr(local.os, "open", fail)
        with pytest.raises(TransientStoreError):
            store.read("a")


class TestWriting:
    def test_nothing_is_left_beside_the_target(self, store, root):
        store.write("d/a", b"x", overwrite=False)
        with pytest.raises(ObjectExistsError):
            store.write("d/a", b"y", overwrite=False)
        store.write("d/a", b"z", overwrite=True)
        assert names(root / "d") == ["a"]

    def test_a_failed_write_leaves_neither_file_nor_rest(self, store, root, monkeypatch):
        def full(*_):
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(local.os, "fsync", full)
        with pytest.raises(StoreError, match="No space"):
            store.write("a", b"x", overwrite=False)
        assert names(root) == []

    def test_rights_follow_the_umask(self, store, root):
        before = os.umask(0o027)
        try:
            store.write("a", b"x", overwrite=False)
        finally:
            os.umask(before)
        assert stat.S_IMODE((root / "a").stat().st_mode) == 0o640

    @pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK])
    def test_without_hard_links_a_rename_decides(self, store, root, monkeypatch, code):
        def no_links(*_):
            raise OSError(code, os.strerror(code))

        monkeypatch.setattr(local.os, "link", no_links)
        store.write("a", b"first", overwrite=False)
        with pytest.raises(ObjectExistsError):
            store.write("a", b"second", overwrite=False)
        assert store.read("a") == b"first"
        assert names(root) == ["a"]

    def test_without_links_and_renames_it_refuses(self, store, root, monkeypatch):
        def no_links(*_):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(local.os, "link", no_links)
        monkeypatch.setattr(local.ctypes, "CDLL", lambda *_, **__: object())
        with pytest.raises(StoreError, match="neither link nor rename"):
            store.write("a", b"x", overwrite=False)
        assert names(root) == []

    def test_a_link_that_took_effect_but_was_reported_failed_counts(self, store, monkeypatch):
        link = os.link

        def lost_answer(*arguments):
            link(*arguments)
            raise FileExistsError(errno.EEXIST, "File exists")

        monkeypatch.setattr(local.os, "link", lost_answer)
        store.write("a", b"mine", overwrite=False)
        assert store.read("a") == b"mine"

    def test_data_is_synced_before_it_is_named_and_the_name_after(self, store, monkeypatch):
        steps = []
        for name in ("fsync", "link"):
            real = getattr(os, name)

            def noted(*arguments, name=name, real=real):
                steps.append(name)
                return real(*arguments)

            monkeypatch.setattr(local.os, name, noted)
        store.write("a", b"x", overwrite=False)
        assert steps == ["fsync", "link", "fsync"]

    @pytest.mark.parametrize("can_begin", [True, False])
    def test_an_output_is_on_its_way_to_the_disk_before_it_ends(
        self, can_begin, store, root, monkeypatch
    ):
        begun = []
        calls = {"sync_file_range": lambda *given: begun.append(given)} if can_begin else {}
        monkeypatch.setattr(local, "_UNFLUSHED_BYTES", 10)
        monkeypatch.setattr(local.ctypes, "CDLL", lambda *_, **__: SimpleNamespace(**calls))
        output = store.open_output("new")
        for at in range(5):
            output.file.write(b"%d" % at * 6)
            assert len(begun) == ((at + 1) // 2 if can_begin else 0)
        output.publish()
        assert (root / "new").read_bytes() == b"000000111111222222333333444444"

    def test_a_removed_directory_is_made_again(self, store, root):
        store.write("d/a", b"x", overwrite=False)
        store.delete(["d/a"])
        (root / "d").rmdir()
        assert paths(store.list_from("d")) == []
        store.write("d/a", b"y", overwrite=False)
        assert store.read("d/a") == b"y"

    def test_a_file_in_the_place_of_a_directory_says_so(self, store):
        store.write("a", b"x", overwrite=False)
        with pytest.raises(StoreError):
            store.write("a/b", b"y", overwrite=False)

    def test_a_killed_writer_leaves_no_torn_file(self, store, root):
        """Kill writers at random moments: each object is absent or whole."""
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


def test_listing_asks_for_sizes_page_by_page(store, root, monkeypatch):
    for number in range(2500):
        (root / f"{number:05d}").write_bytes(b"")
    pages = store.list_from("")
    assert next(pages).num_rows == 1000
    (root / "02400").unlink()  # gone before its page was asked for
    assert "02400" not in paths(pages)
