from __future__ import annotations

import sys
from urllib.parse import quote

import pyarrow as pa
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from lazydelta.errors import ConfigError, PathNotAllowedError
from lazydelta.protocol.paths import Location, PathResolver
from tests.builders.hostile_paths import ESCAPES, UNUSUAL_NAMES

LOCAL = PathResolver("/data/my t")
S3 = PathResolver("s3://lake/my%20t")
AZURE = PathResolver("abfss://lake@acct.dfs.core.windows.net/t")


def strings(*values):
    return pa.array(values, pa.string())


class TestDecoded:
    @pytest.mark.parametrize(
        ("logged", "plain"),
        [
            pytest.param("part-0.parquet", "part-0.parquet", id="plain"),
            pytest.param("with%20space/p@%23h", "with space/p@#h", id="space-and-hash"),
            pytest.param("x=A%252FA/p", "x=A%2FA/p", id="hive-escaped-slash-decoded-once"),
            pytest.param("ts=12%253A30/p", "ts=12%3A30/p", id="hive-escaped-colon-decoded-once"),
            pytest.param("x=100%252525/p", "x=100%2525/p", id="thrice-encoded-decoded-once"),
            pytest.param("a+b%2Bc", "a+b+c", id="plus-is-not-a-space"),
            pytest.param("x=z%C3%BCrich/%e2%98%83", "x=zürich/☃", id="utf-8"),
            pytest.param("x=zürich%20☃", "x=zürich ☃", id="unicode-next-to-escapes"),
            pytest.param("100%", "100%", id="percent-at-the-end"),
            pytest.param("100%4", "100%4", id="half-an-escape"),
            pytest.param("a%zzb%20c", "a%zzb c", id="invalid-escape-next-to-a-valid-one"),
            pytest.param("%%41", "%A", id="percent-before-an-escape"),
            pytest.param("a%FFb", "a%FFb", id="not-utf-8-stays"),
            pytest.param("a%20%C3", "a%20%C3", id="truncated-utf-8-stays"),
            pytest.param("", "", id="empty"),
            pytest.param(None, None, id="null"),
            pytest.param("/abs/with%20space/p@%23h", "/abs/with space/p@#h", id="absolute"),
            pytest.param("file:/abs/p", "/abs/p", id="file-one-slash"),
            pytest.param("file:///abs/a%20b", "/abs/a b", id="file-three-slashes"),
            pytest.param("FILE://localhost/abs/p", "/abs/p", id="file-localhost"),
            pytest.param("file://host/p", "file://host/p", id="file-of-another-host"),
            pytest.param("s3://b/k%20k", "s3://b/k k", id="other-scheme"),
            pytest.param("a:b/c", "a:b/c", id="colon-in-a-name"),
            pytest.param("%66ile:/abs/p", "/abs/p", id="encoded-scheme"),
        ],
    )
    def test_one(self, logged, plain):
        assert LOCAL.decoded(strings(logged)).to_pylist() == [plain]
        # Neighbours, nulls and slices must not change the result.
        around = strings("a%20b", logged, None, "%2", logged, "41").slice(1, 4)
        assert LOCAL.decoded(around).to_pylist() == [plain, None, "%2", plain]

    def test_a_moved_table_keeps_the_paths_of_its_log(self):
        moved = strings("file:/somewhere/else/t/p", "s3a://other/t/p")
        assert LOCAL.decoded(moved).to_pylist() == ["/somewhere/else/t/p", "s3a://other/t/p"]

    def test_a_local_file_in_a_cloud_table_stays_a_uri(self):
        assert S3.decoded(strings("file:/abs/a%20b")).to_pylist() == ["file:/abs/a b"]

    def test_nothing_to_do_is_the_array_itself(self):
        paths = strings("part-0.parquet", None, "x=1/part-1.parquet", "")
        assert LOCAL.decoded(paths) is paths
        assert LOCAL.keys(paths) is paths

    def test_large_strings_and_nulls_keep_their_kind(self):
        paths = pa.array(["a%20b", None, "c"], pa.large_string())
        found = LOCAL.decoded(paths)
        found.validate(full=True)
        assert found.type == pa.large_string()
        assert found.to_pylist() == ["a b", None, "c"]
        assert S3.uris(paths).to_pylist() == ["s3://lake/my%20t/a%20b", None, "s3://lake/my%20t/c"]

    @given(st.lists(st.none() | st.text(st.characters(codec="utf-8"))))
    def test_decoding_undoes_encoding(self, names):
        logged = strings(*[name if name is None else quote(name, safe="/") for name in names])
        found = S3.decoded(logged)
        found.validate(full=True)
        assert found.to_pylist() == names

    @given(st.lists(st.text("%aAfF0249C3Bz/é", max_size=12)))
    def test_whole_columns_decode_like_single_paths(self, logged):
        for path, plain in zip(logged, S3.decoded(strings(*logged)).to_pylist(), strict=True):
            assert S3.decoded(strings(path)).to_pylist() == [plain]


class TestKeys:
    @pytest.mark.parametrize(
        ("resolver", "same"),
        [
            pytest.param(
                LOCAL,
                [
                    "x=1/a b",
                    "x=1/a%20b",
                    "./x=1/a%20b",
                    "x=1//a%20b",
                    "y/../x=1/a%20b",
                    "/data/my%20t/x=1/a%20b",
                    "/data/my%20t//x=1/./a%20b",
                    "file:/data/my%20t/x=1/a%20b",
                    "file:///data/my%20t/x=1/a%20b",
                    "file://localhost/data/my%20t/x=1/a%20b",
                ],
                id="local",
            ),
            pytest.param(
                LOCAL,
                ["/else/p@%23h", "file:/else/p@%23h", "file:///else/p@%23h", "/else//p@%23h"],
                id="absolute-elsewhere",
            ),
            pytest.param(
                S3,
                [
                    "x/a b",
                    "x/a%20b",
                    "s3://lake/my%20t/x/a%20b",
                    "s3a://lake/my%20t/x/a%20b",
                    "S3n://lake/my t/x//a b",
                    "/my%20t/x/a%20b",
                ],
                id="s3",
            ),
            pytest.param(S3, ["s3://other/t/p", "s3a://other/t/p"], id="s3-elsewhere"),
            pytest.param(
                PathResolver("https://lake.s3.eu-west-1.amazonaws.com/t"),
                [
                    "p",
                    "s3://lake/t/p",
                    "https://lake.s3.eu-west-1.amazonaws.com/t/p",
                    "https://s3.eu-west-1.amazonaws.com/lake/t/p",
                ],
                id="s3-by-https",
            ),
            pytest.param(
                PathResolver("https://0a1b.r2.cloudflarestorage.com/lake/t"),
                ["p", "s3://lake/t/p", "https://0a1b.r2.cloudflarestorage.com/lake/t/p"],
                id="r2",
            ),
            pytest.param(
                PathResolver("https://storage.googleapis.com/lake/t"),
                ["p", "gs://lake/t/p", "https://lake.storage.googleapis.com/t/p"],
                id="gcs-by-https",
            ),
            pytest.param(
                PathResolver("https://acct.z37.blob.storage.azure.net/lake/t"),
                ["p", "abfss://lake@acct.z37.dfs.storage.azure.net/t/p"],
                id="azure-dns-zone",
            ),
            pytest.param(S3, ["file:/x/p", "file:///x/p"], id="a-local-file-in-s3"),
            pytest.param(
                AZURE,
                [
                    "p",
                    "abfss://lake@acct.dfs.core.windows.net/t/p",
                    "abfs://lake@acct.dfs.core.windows.net/t/p",
                    "wasbs://lake@acct.blob.core.windows.net/t/p",
                    "https://acct.blob.core.windows.net/lake/t/p",
                    "https://acct.dfs.core.windows.net/lake/t/p",
                ],
                id="azure",
            ),
            pytest.param(
                PathResolver("az://lake/t"), ["p", "az://lake/t/p", "abfss://lake/t/p"], id="az"
            ),
            pytest.param(PathResolver("gs://lake/t"), ["p", "gcs://lake/t/p"], id="gcs"),
            pytest.param(PathResolver("/"), ["p", "/p", "file:///p"], id="the-root-directory"),
        ],
    )
    def test_spellings_of_one_file_have_one_key(self, resolver, same):
        keys = resolver.keys(strings(*same)).to_pylist()
        assert len(set(keys)) == 1, keys
        for path, key in zip(same, keys, strict=True):
            assert resolver.keys(strings(path)).to_pylist() == [key]

    @pytest.mark.parametrize(
        ("resolver", "different"),
        [
            (
                LOCAL,
                ["p", "my t/p", "/data/my t-evil/p", "/p", "../p", "s3://lake/p", "P", "p ", ""],
            ),
            (S3, ["p", "s3://lake/p", "s3://lake/my t-evil/p", "s3://other/my t/p", "file:///p"]),
            (S3, ["p", "/p", "s3://user@lake/my t/p", "s3://lake:80/my t/p", "gs://lake/my t/p"]),
            (
                AZURE,
                [
                    "p",
                    "abfss://lake@other.dfs.core.windows.net/t/p",
                    "abfss://else@acct.dfs.core.windows.net/t/p",
                    "abfss://lake@acct.dfs.evil.example/t/p",
                    "az://lake/t/p",
                ],
            ),
            (LOCAL, ["x=a%252Fb/p", "x=a%2Fb/p", "x=a%25252Fb/p"]),
        ],
    )
    def test_different_files_have_different_keys(self, resolver, different):
        keys = resolver.keys(strings(*different)).to_pylist()
        assert len(set(keys)) == len(different), keys

    def test_files_of_the_table_are_relative(self):
        assert S3.keys(strings("s3a://lake/my%20t/x/p", None)).to_pylist() == ["x/p", None]

    def test_roots_with_pattern_characters_are_taken_literally(self):
        resolver = PathResolver("/data/a.b(c)+[d]$")
        paths = strings("/data/a.b(c)+[d]$/p", "/data/aXb(c)+[d]$/p")
        assert resolver.keys(paths).to_pylist() == ["p", "/data/aXb(c)+[d]$/p"]


class TestUris:
    @pytest.mark.parametrize(
        ("resolver", "logged", "uri"),
        [
            (LOCAL, "x=A%252FA/a%20b", "/data/my t/x=A%2FA/a b"),
            (LOCAL, "file:/else/a%20b", "/else/a b"),
            (LOCAL, "s3://b/a%20b", "s3://b/a%20b"),
            (S3, "x=A%252FA/a%20b", "s3://lake/my%20t/x=A%252FA/a%20b"),
            (S3, "a b#c?d%zz", "s3://lake/my%20t/a%20b%23c%3Fd%25zz"),
            (S3, "zürich", "s3://lake/my%20t/z%C3%BCrich"),
            (S3, "s3://other/a%20b", "s3://other/a%20b"),
            (S3, "/else/a%20b", "s3://lake/else/a%20b"),
            (S3, None, None),
        ],
    )
    def test_one(self, resolver, logged, uri):
        assert resolver.uris(strings(logged)).to_pylist() == [uri]
        assert resolver.uris(strings("p", logged, "ü").slice(1, 1)).to_pylist() == [uri]

    @given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), min_size=1)))
    @example(["..."])
    def test_a_uri_leads_back_to_its_file(self, names):
        assume(not {".", ".."} & set(names))  # these are directories
        logged = strings(*[quote(name.replace("/", "_").replace(":", "_")) for name in names])
        assert S3.keys(S3.uris(logged)).to_pylist() == S3.keys(logged).to_pylist()


class TestClientUris:
    @pytest.mark.parametrize(
        ("resolver", "uri"),
        [
            (LOCAL, "file:///data/my%20t/x%3F/a%20b"),
            (S3, "s3://lake/my%20t/x%3F/a%20b"),
            (AZURE, "abfss://lake@acct.dfs.core.windows.net/t/x%3F/a%20b"),
        ],
    )
    def test_a_file_below_the_root_has_a_uri_that_a_client_can_open(self, resolver, uri):
        assert resolver.client_uris(strings("x%3F/a%20b")).to_pylist() == [uri]

    @pytest.mark.parametrize("resolver", [LOCAL, S3, AZURE])
    @pytest.mark.parametrize("other", ["x/12:30", "a..b"])
    @given(names=st.lists(st.text("aé%20 =+/", min_size=1).map(lambda name: f"n{name}")))
    def test_an_unusual_path_changes_no_other_uri(self, resolver, other, names):
        alone = resolver.client_uris(strings(*names)).to_pylist()
        assert resolver.client_uris(strings(*names, other)).to_pylist()[:-1] == alone


ROOTS = [
    "/data/t",
    "s3://lake/t",
    "abfss://lake@acct.dfs.core.windows.net/t",
    "gs://other/t",
    "memory://table/x y",
]


class TestToOpen:
    @pytest.mark.parametrize("root", ROOTS)
    @pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
    def test_nothing_leads_out(self, root, escape):
        self._refuses(PathResolver(root), escape)
        self._refuses(PathResolver(root, ["s3://allowed/x", "/srv/allowed"]), escape)

    @pytest.mark.parametrize("root", ROOTS)
    @pytest.mark.parametrize("escape", ESCAPES.values(), ids=ESCAPES)
    def test_nothing_leads_out_of_the_sidecars(self, root, escape):
        self._refuses(PathResolver(root, ["/etc"]), escape, within="_delta_log/_sidecars")

    @pytest.mark.parametrize("root", ROOTS)
    @pytest.mark.parametrize(
        "escape", ["../x", "..", "/etc/x", "a/../../x", "//h/x", "a\0b", "s3://e/x"]
    )
    def test_composed_vector_names_do_not_lead_out(self, root, escape):
        name = f"{escape}/deletion_vector_61d16c75-6994-46b7-a15b-8b538852e50e.bin"
        self._refuses(PathResolver(root), name, decoded=True)

    def test_the_corpus_is_wide(self):
        assert len(ESCAPES) >= 60

    @staticmethod
    def _refuses(resolver, path, **how):
        with pytest.raises(PathNotAllowedError, match="refused to open") as raised:
            resolver.to_open(path, **how)
        assert "allowed_roots" in str(raised.value)
        assert "pw" not in str(raised.value)

    @pytest.mark.parametrize(
        ("root", "logged", "plain"),
        [
            ("/data/t", "x=1/p.parquet", "x=1/p.parquet"),
            ("/data/t", "x=A%252FA/a%20b", "x=A%2FA/a b"),
            ("/data/t", "%252e%252e/x", "%2e%2e/x"),
            ("/data/t", "a/../b", "b"),
            ("/data/t", "./a//b", "a/b"),
            ("/data/t", "...", "..."),
            ("/data/t", "..a/b", "..a/b"),
            ("/data/t", "a:b", "a:b"),
            ("/data/t", "~/x", "~/x"),
            ("/data/t", "/data/t/a%20b", "a b"),
            ("/data/t", "file:///data/t/a", "a"),
            ("/data/t", "../t/a", "a"),
            ("/", "a", "a"),
            ("/data/100%25", "/data/100%2525/a", "a"),
            ("file:///data/my%20t", "/data/my t/a", "a"),
            ("s3://lake/t", "s3a://lake/t/a", "a"),
            ("s3://lake/t", "/t/a", "a"),
            ("s3://lake", "s3://lake/a", "a"),
            ("s3://lake/my%20t", "s3://lake/my%20t/a", "a"),
            (
                "https://acct.blob.core.windows.net/lake/t",
                "abfss://lake@acct.dfs.core.windows.net/t/a",
                "a",
            ),
        ],
    )
    def test_files_of_the_table(self, root, logged, plain):
        assert PathResolver(root).to_open(logged) == Location(None, plain)

    @pytest.mark.parametrize("root", ROOTS)
    @pytest.mark.parametrize(("logged", "plain"), UNUSUAL_NAMES.items())
    def test_unusual_names_are_files_of_the_table(self, root, logged, plain):
        assert PathResolver(root).to_open(logged) == Location(None, plain)

    def test_a_plain_path_is_not_decoded_again(self):
        assert LOCAL.to_open("x=A%2FA/p", decoded=True) == Location(None, "x=A%2FA/p")
        assert LOCAL.to_open("%2e%2e/p", decoded=True) == Location(None, "%2e%2e/p")

    def test_with_a_bucket_as_root_its_absolute_paths_are_inside(self):
        assert PathResolver("s3://lake").to_open("/etc/passwd") == Location(None, "etc/passwd")

    @pytest.mark.parametrize("climbing", ["s3://lake/../x", "s3://lake/a/../../x", "../x"])
    def test_a_bucket_as_root_cannot_be_left_either(self, climbing):
        with pytest.raises(PathNotAllowedError):
            PathResolver("s3://lake").to_open(climbing)

    def test_sidecars_start_from_their_directory(self):
        where = "_delta_log/_sidecars"
        found = Location(None, f"{where}/a.parquet")
        assert S3.to_open("a.parquet", within=where) == found
        assert S3.to_open("s3://lake/my%20t/_delta_log/_sidecars/a.parquet", within=where) == found
        with pytest.raises(PathNotAllowedError, match="_sidecars"):
            S3.to_open("s3://lake/my%20t/a.parquet", within=where)

    def test_allowed_roots_are_read_from_the_deepest(self):
        resolver = PathResolver(
            "/data/t", ["s3a://src/a", "s3a://src/a/b/", "/data/u", "/data/t/c"]
        )
        assert resolver.to_open("s3://src/a/x%20y") == Location("s3a://src/a", "x y")
        assert resolver.to_open("s3://src/a/b/x") == Location("s3a://src/a/b/", "x")
        assert resolver.to_open("file:/data/u/x") == Location("/data/u", "x")
        assert resolver.to_open("../u/x") == Location("/data/u", "x")
        assert resolver.to_open("/data/t/c/x") == Location(None, "c/x")
        for outside in ("s3://src/ab/x", "/data/u-evil/x", "s3://src/a", "/data/u/../v"):
            with pytest.raises(PathNotAllowedError):
                resolver.to_open(outside)

    @pytest.mark.parametrize("root", ["", "t", "../t", "./t"])
    def test_roots_must_be_absolute(self, root):
        with pytest.raises(ConfigError, match="neither a URL nor an absolute path"):
            PathResolver("/data/t", [root])

    @given(st.text("./%2eEfF\\aé:\0", max_size=20), st.sampled_from(ROOTS))
    def test_whatever_is_opened_lies_below(self, path, root):
        try:
            location = PathResolver(root).to_open(path)
        except PathNotAllowedError:
            return
        segments = location.path.split("/")
        assert location.store_root is None
        assert not {"", ".", ".."} & set(segments)
        assert not set("\\\0") & set(location.path)


def test_columns_of_paths_are_processed_vectorized():
    paths = pa.array([f"ts=12%253A{n % 60}/part-{n:08d}.parquet" for n in range(100_000)])
    calls = []
    sys.setprofile(lambda _frame, event, _what: calls.append(event))
    try:
        LOCAL.keys(paths)
    finally:
        sys.setprofile(None)
    assert 0 < len(calls) < 10_000
