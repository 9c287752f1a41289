"""Every path that comes out of a log passes here: decoded once, named in one way, kept inside.

Pure: knows how logs write paths (percent-encoded, relative to the table or absolute) and which
places a table may reach; opens nothing. Whole columns are handled as bytes, because a table may
have millions of paths; the Python loop is left to forms that writers do not produce.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta._arrow import bits, certain, selection
from lazydelta.errors import ConfigError, PathNotAllowedError
from lazydelta.schema import PrimitiveType, build_array

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

__all__ = ["Location", "PathResolver"]

Bytes = npt.NDArray[np.uint8]
Offsets = npt.NDArray[np.int64]

_STRING = PrimitiveType("string")
_PERCENT, _SLASH, _COLON, _DOT = b"%/:."
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*:/"
_ABSOLUTE = re.compile(rf"{_SCHEME}|^/")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?", re.DOTALL)
_REDUNDANT = r"[^:]//|^//|:///|(^|/)\.\.?(/|$)"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\u2028\u2029]")
_FILE_URI = (r"^(?i:file):(?://(?i:localhost)?)?/([^/]|$)", r"/\1")
# One spelling for each place: what is on the right is what keys and comparisons use.
_ALIASES = (
    (_FILE_URI[0], r"file:///\1"),
    (r"^(?i:s3[an]?)://", "s3://"),
    (r"^(?i:gcs|gs)://", "gs://"),
    (r"^(?i:abfss?|wasbs?)://([^/@]+)@([^/.@]+)\.(?:dfs|blob)\.", r"abfss://\1@\2.dfs."),
    (r"^(?i:https)://([^/.@:]+)\.(?:dfs|blob)\.([^/@:]+)/([^/]+)", r"abfss://\3@\1.dfs.\2"),
    (r"^(?i:abfss?|azure|az|adl|wasbs?)://([^/@]+)(/|$)", r"az://\1\2"),
)
_ALIAS_PATTERNS = tuple((re.compile(pattern), to) for pattern, to in (_FILE_URI, *_ALIASES))

_HEX = np.full(256, -1, np.int16)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _HEX[list(_digits)] = range(16)
_ENCODED = np.ones(256, bool)
_ENCODED[
    list(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/!$&'()*+,;=:@")
] = 0
_HEX_DIGITS = np.frombuffer(b"0123456789ABCDEF", np.uint8)


@dataclass(frozen=True, slots=True)
class Location:
    """A file that may be opened: a place, and the plain path below it."""

    store_root: str | None
    """The allowed root it lies in; None for the table's own."""
    path: str
    """Relative and plain: to be given to a store as it is."""


class PathResolver:
    """The paths of one table's log, read as the protocol means them.

    Listing shows what the log says, wherever it points; only `to_open` refuses.

    >>> PathResolver("s3://lake/trips").to_open("day=1%20May/a.parquet")
    Location(store_root=None, path='day=1 May/a.parquet')
    """

    __slots__ = ("_allowed", "_is_local", "_own", "_strip", "root")

    def __init__(self, root: str, allowed_roots: Sequence[str] = ()) -> None:
        self._own = _canonical_root("root", root)
        self._is_local = self._own.startswith("/")
        self.root = self._own if self._is_local else root.rstrip("/")
        self._strip = f"^{re.escape(self._own.rstrip('/'))}/"
        # The deepest root that holds a path is the one it is opened from.
        roots = ((_canonical_root("allowed_roots", name), name) for name in allowed_roots)
        self._allowed = tuple(sorted(roots, key=lambda pair: len(pair[0]), reverse=True))

    def __repr__(self) -> str:
        return f"PathResolver({self.root!r}, {[name for _, name in self._allowed]!r})"

    def decoded(self, paths: pa.StringArray) -> pa.StringArray:
        """Return the paths percent-decoded once; what users see as a file's path.

        In a local table a `file:` URI becomes a plain absolute path. What is no valid escape, or
        would not be text when decoded, stays as it is. The array itself is returned if there is
        nothing to do.
        """
        data, _ = _text(paths)
        plain = _percent_decoded(paths) if _has(data, _PERCENT) else paths
        if self._is_local and (plain is not paths or _has(data, _COLON)):
            plain = _replaced(plain, *_FILE_URI)
        return plain

    def keys(self, paths: pa.StringArray) -> pa.StringArray:
        """Return one spelling per file: two paths are the same file if their keys are equal.

        Files of the table are relative to its root, others absolute; scheme aliases, `.`, `..`
        and doubled slashes are gone. The array itself is returned if there is nothing to do.
        """
        plain = self.decoded(paths)
        data, offsets = _text(plain)
        absolute = _has(data, _COLON) or _any_begins(data, offsets, _SLASH)
        if absolute:
            for pattern, to in _ALIASES:
                plain = _replaced(plain, pattern, to)
        if _may_be_redundant(data, offsets):
            plain = _each(plain, _REDUNDANT, _normalised)
        if absolute:
            if not self._is_local:
                plain = _replaced(plain, "^/", f"{_authority(self._own)}/")
            plain = _replaced(plain, self._strip, "")
        return plain

    def uris(self, paths: pa.StringArray) -> pa.StringArray:
        """Return absolute addresses: plain paths for a local table, else percent-encoded URIs."""
        plain = self.decoded(paths)
        data, offsets = _text(plain)
        absolute = None
        if _has(data, _COLON) or _any_begins(data, offsets, _SLASH):
            absolute = pc.match_substring_regex(plain, pattern=_ABSOLUTE.pattern)
        encoded = plain if self._is_local else _percent_encoded(plain)
        below = pc.utf8_replace_slice(
            encoded, start=0, stop=0, replacement=f"{self.root.rstrip('/')}/"
        )
        if absolute is None:
            return below
        if self._is_local:  # what names another kind of store stays as the log wrote it
            elsewhere = pc.if_else(pc.match_substring_regex(plain, pattern="^/"), plain, paths)
        else:
            elsewhere = _replaced(encoded, "^/", f"{_authority(self.root)}/")
        return pc.if_else(absolute, elsewhere, below)

    def to_open(self, path: str, *, decoded: bool = False, within: str = "") -> Location:
        """Return where to open one file, or refuse.

        Args:
            path: As the log writes it: relative to the table's root or absolute.
            decoded: Whether `path` is plain already (it came from `decoded`, or was composed,
                as the names of deletion-vector files are).
            within: A directory of the table that a relative path starts from and the file must
                lie in, such as `_delta_log/_sidecars`. Allowed roots do not count then.

        Raises:
            PathNotAllowedError: It points out of the root and of every allowed one, or it is
                written in a way that stores and file systems could disagree about.
        """
        plain = path if decoded else _decoded_one(path)
        self._check_characters(path, plain)
        own = f"{self._own.rstrip('/')}/{within}".rstrip("/")
        place = self._place(plain) if _ABSOLUTE.match(plain) else _normalised(f"{own}/{plain}")
        relative = _below(own, place)
        if relative is not None:
            return Location(None, f"{within}/{relative}" if within else relative)
        for root, name in () if within else self._allowed:
            relative = _below(root, place)
            if relative is not None:
                return Location(name, relative)
        raise PathNotAllowedError(self.root, path, f"it is not in {within or 'the table'}")

    def _place(self, absolute: str) -> str:
        """Return an absolute path or URI in the spelling that roots are compared in."""
        if not absolute.startswith("/"):
            absolute = _canonical(absolute, local=self._is_local)
        elif not self._is_local:
            absolute = _authority(self._own) + absolute
        return _normalised(absolute)

    def _check_characters(self, path: str, plain: str) -> None:
        reason = ""
        if not plain:
            reason = "it is empty"
        elif plain.startswith("//"):
            reason = "it begins with //, which may name a host"
        elif _UNSAFE.search(plain):
            reason = "it has a backslash or a control character"
        elif not plain.isascii() and any("\ud800" <= character <= "\udfff" for character in plain):
            reason = "it is not valid text"
        if reason:
            raise PathNotAllowedError(self.root, path, reason)


def _canonical_root(setting: str, root: str) -> str:
    """Return a root in the one spelling that paths are compared in, without a trailing slash."""
    if not _ABSOLUTE.match(root):
        raise ConfigError(setting, f"{root!r} is neither a URL nor an absolute path")
    plain = root if root.startswith("/") else _canonical(_decoded_one(root), local=True)
    return _normalised(plain).rstrip("/") or "/"


def _canonical(uri: str, *, local: bool) -> str:
    for pattern, to in _ALIAS_PATTERNS if local else _ALIAS_PATTERNS[1:]:
        uri = pattern.sub(to, uri, count=1)
    return uri


def _authority(uri: str) -> str:
    """Return `scheme://authority` of a URI."""
    found = _URI.match(uri)
    return f"{found[1]}://{found[2]}" if found else ""


def _below(root: str, place: str) -> str | None:
    """Return the path of `place` in `root`: whole segments count, and none may climb."""
    prefix = root.rstrip("/") + "/"
    relative = place.removeprefix(prefix) if place.startswith(prefix) else ""
    return None if not relative or relative.partition("/")[0] == ".." else relative


def _normalised(plain: str) -> str:
    """Return a path without `.`, `..` and empty segments; one that climbs out keeps its `..`."""
    found = _URI.fullmatch(plain)
    head, rest = (f"{found[1]}://{found[2]}", found[3] or "") if found else ("", plain)
    rooted = rest.startswith("/")
    kept: list[str] = []
    for segment in rest.split("/"):
        if segment in ("", "."):
            continue
        if segment == ".." and kept and kept[-1] != "..":
            kept.pop()
        else:
            kept.append(segment)
    return head + ("/" if rooted else "") + "/".join(kept)


def _decoded_one(path: str) -> str:
    try:
        return unquote_to_bytes(path).decode() if "%" in path else path
    except UnicodeDecodeError:
        return path


def _text(paths: pa.StringArray) -> tuple[Bytes, Offsets]:
    """Return the bytes of a string array (without its unused ends) and where each text ends."""
    _, offsets_buffer, data_buffer = paths.buffers()
    if not len(paths) or data_buffer is None:
        return np.empty(0, np.uint8), np.zeros(len(paths) + 1, np.int64)
    wide = pa.types.is_large_string(paths.type)
    offsets = np.frombuffer(offsets_buffer, np.int64 if wide else np.int32)
    offsets = offsets[paths.offset : paths.offset + len(paths) + 1].astype(np.int64)
    data = np.frombuffer(data_buffer, np.uint8)[offsets[0] : offsets[-1]]
    return data, offsets - offsets[0]


def _rebuilt(like: pa.StringArray, data: Bytes, offsets: Offsets) -> pa.StringArray:
    """Return the array with other text; nulls stay where they were."""
    wide = pa.types.is_large_string(like.type)
    starts = offsets if wide else offsets.astype(np.int32)
    valid = None
    if like.null_count:
        valid = pa.py_buffer(np.packbits(bits(like.is_valid()), bitorder="little"))
    buffers = [valid, pa.py_buffer(starts), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(like.type, len(like), buffers)


def _has(data: Bytes, byte: int) -> bool:
    # A copy to be searched by memchr beats a comparison, which needs a fresh array as large.
    return byte in data.tobytes()


def _any_begins(data: Bytes, offsets: Offsets, byte: int) -> bool:
    starts = offsets[:-1][offsets[:-1] < offsets[1:]]
    return bool((data[starts] == byte).any())


def _may_be_redundant(data: Bytes, offsets: Offsets) -> bool:
    """Whether any text may hold `//` (but that of a scheme), `/.` or begin with a dot."""
    slashes = np.flatnonzero(data[:-1] == _SLASH)
    following = data[slashes + 1]
    pairs = slashes[(following == _SLASH) | (following == _DOT)]
    if len(pairs):
        of_scheme = (data[pairs - 1] == _COLON) & (data[pairs + 1] == _SLASH) & (pairs > 0)
        if not of_scheme.all():
            return True
    return _any_begins(data, offsets, _DOT)


def _replaced(paths: pa.StringArray, pattern: str, to: str) -> pa.StringArray:
    """Replace what an anchored pattern finds; to look first is cheaper than to copy for nothing."""
    if not pc.match_substring_regex(paths, pattern=pattern).true_count:
        return paths
    return pc.replace_substring_regex(paths, pattern=pattern, replacement=to, max_replacements=1)


def _each(paths: pa.StringArray, pattern: str, change: Callable[[str], str]) -> pa.StringArray:
    """Return the array with `change` applied to the texts that match; they should be few."""
    rows = pc.match_substring_regex(paths, pattern=pattern)
    if not rows.true_count:
        return paths
    texts = [change(text) for text in paths.filter(rows).to_pylist()]
    changed = build_array(texts, _STRING).cast(paths.type)
    return pc.replace_with_mask(paths, selection(certain(rows)), changed)


def _percent_decoded(paths: pa.StringArray) -> pa.StringArray:
    """Decode `%XX` once, all texts together: bytes are moved, nothing is parsed per text."""
    data, offsets = _text(paths)
    found = np.flatnonzero(data == _PERCENT)
    ends = offsets[np.searchsorted(offsets, found, side="right")]
    found = found[found + 2 < ends]
    high, low = _HEX[data[found + 1]], _HEX[data[found + 2]]
    valid = (high >= 0) & (low >= 0)
    found, values = found[valid], (high[valid] * 16 + low[valid]).astype(np.uint8)
    if not len(found):
        return paths
    changed = data.copy()
    changed[found] = values
    kept = np.ones(len(data), bool)
    kept[found + 1] = kept[found + 2] = False
    moved = offsets - 2 * np.searchsorted(found, offsets, side="left")
    result = _rebuilt(paths, changed[kept], moved)
    if (values < 128).all():
        return result
    try:
        result.validate(full=True)
    except pa.ArrowInvalid:  # some escapes are not UTF-8: those texts stay as they are
        return _each(paths, "%", _decoded_one)
    return result


def _percent_encoded(paths: pa.StringArray) -> pa.StringArray:
    """Encode what a URI's path cannot hold, all texts together."""
    data, offsets = _text(paths)
    unsafe = _ENCODED[data]
    if not unsafe.any():
        return paths
    found = np.flatnonzero(unsafe)
    escapes = found + 2 * np.arange(len(found))
    kept = np.ones(len(data) + 2 * len(found), bool)
    kept[escapes + 1] = kept[escapes + 2] = False
    changed = np.empty(len(kept), np.uint8)
    changed[kept] = data
    changed[escapes] = _PERCENT
    changed[escapes + 1] = _HEX_DIGITS[data[found] >> 4]
    changed[escapes + 2] = _HEX_DIGITS[data[found] & 15]
    return _rebuilt(paths, changed, offsets + 2 * np.searchsorted(found, offsets, side="left"))
