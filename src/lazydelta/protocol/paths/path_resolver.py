"""Resolve the paths of a log: percent-decoded once, canonicalized, and within allowed roots.

Logs have percent-encoded paths, relative to the table or absolute.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lazydelta.errors import ConfigError, PathNotAllowedError
from lazydelta.protocol.paths.percent_encoding import (
    Bytes,
    Offsets,
    any_starts_with,
    has_byte,
    map_matching,
    percent_decode,
    percent_decode_one,
    percent_encode,
    replace_prefix,
    string_buffers,
)
from lazydelta.schema import PrimitiveType
from lazydelta.schema.values import build_array

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Location", "PathResolver"]

_PERCENT, _SLASH, _COLON, _DOT = b"%/:."
_SCHEME = r"^[A-Za-z][A-Za-z0-9+.-]*:/"
_ABSOLUTE = re.compile(rf"{_SCHEME}|^/")
_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://([^/]*)(/.*)?", re.DOTALL)
_REDUNDANT = r"[^:]//|^//|:///|(^|/)\.\.?(/|$)"
_UNSAFE = re.compile(r"[\x00-\x1f\x7f-\x9f\\\u2028\u2029]")
_FILE_URI = (r"^(?i:file):(?://(?i:localhost)?)?/([^/]|$)", r"/\1")
# Aliases and the canonical form, which keys and comparisons use.
_ALIASES = (
    (_FILE_URI[0], r"file:///\1"),
    (r"^(?i:s3[an]?)://", "s3://"),
    (r"^(?i:gcs|gs)://", "gs://"),
    (r"^(?i:https)://([^/@:]+)\.s3[.-][^/@:]*amazonaws\.com(?:\.cn)?(/|$)", r"s3://\1\2"),
    (r"^(?i:https)://s3[.-][^/@:]*amazonaws\.com(?:\.cn)?/([^/]+)", r"s3://\1"),
    (r"^(?i:https)://[^/@:]+\.r2\.cloudflarestorage\.com/([^/]+)", r"s3://\1"),
    (r"^(?i:https)://([^/@:]+)\.storage\.googleapis\.com(/|$)", r"gs://\1\2"),
    (r"^(?i:https)://storage\.(?:googleapis|cloud\.google)\.com/([^/]+)", r"gs://\1"),
    (r"^(?i:abfss?|wasbs?)://([^/@]+)@([^/@]+?)\.(?:dfs|blob)\.", r"abfss://\1@\2.dfs."),
    (r"^(?i:https)://([^/@:]+?)\.(?:dfs|blob)\.([^/@:]+)/([^/]+)", r"abfss://\3@\1.dfs.\2"),
    (r"^(?i:abfss?|azure|az|adl|wasbs?)://([^/@]+)(/|$)", r"az://\1\2"),
)
_ALIAS_PATTERNS = tuple((re.compile(pattern), to) for pattern, to in (_FILE_URI, *_ALIASES))


class Location(NamedTuple):
    """A file that may be opened: a root, and the plain path below it."""

    store_root: str | None
    """The allowed root of the file; None for the table's root."""
    path: str
    """Relative and plain, as stores expect it."""


class PathResolver:
    """Resolves the paths of one table's log.

    Listing returns any path of the log; only `to_open` refuses paths.

    >>> PathResolver("s3://lake/trips").to_open("day=1%20May/a.parquet")
    Location(store_root=None, path='day=1 May/a.parquet')
    """

    __slots__ = ("_allowed", "_is_local", "_own", "_strip", "root")

    def __init__(self, root: str, allowed_roots: Iterable[str] = ()) -> None:
        self._own = _canonical_root("root", root)
        self._is_local = self._own.startswith("/")
        self.root = self._own if self._is_local else root.rstrip("/")
        self._strip = f"^{re.escape(self._own.rstrip('/'))}/"
        # A path is opened from the deepest root that contains it.
        roots = ((_canonical_root("allowed_roots", name), name) for name in allowed_roots)
        self._allowed = tuple(sorted(roots, key=lambda pair: len(pair[0]), reverse=True))

    def __repr__(self) -> str:
        return f"PathResolver({self.root!r}, {[name for _, name in self._allowed]!r})"

    def decoded(self, paths: pa.StringArray) -> pa.StringArray:
        """Return the paths percent-decoded once, as they are shown to users.

        In a local table a `file:` URI becomes a plain absolute path. Invalid escapes, and escapes
        that are not UTF-8, are left as they are. Returns the same array if nothing changes.
        """
        data, _ = string_buffers(paths)
        plain = percent_decode(paths) if has_byte(data, _PERCENT) else paths
        if self._is_local and (plain is not paths or has_byte(data, _COLON)):
            plain = replace_prefix(plain, *_FILE_URI)
        return plain

    def keys(self, paths: pa.StringArray) -> pa.StringArray:
        """Return canonical paths: two paths are the same file if and only if these are equal.

        Files of the table are relative to its root, others absolute. Scheme aliases, `.`, `..` and
        doubled slashes are resolved. Returns the same array if nothing changes.
        """
        plain = self.decoded(paths)
        data, offsets = string_buffers(plain)
        absolute = has_byte(data, _COLON) or any_starts_with(data, offsets, _SLASH)
        if absolute:
            for pattern, to in _ALIASES:
                plain = replace_prefix(plain, pattern, to)
        if _may_be_redundant(data, offsets):
            plain = map_matching(plain, _REDUNDANT, _normalized)
        if absolute:
            if not self._is_local:
                plain = replace_prefix(plain, "^/", f"{_authority(self._own)}/")
            plain = replace_prefix(plain, self._strip, "")
        return plain

    def plain_keys(self, paths: pa.StringArray) -> pa.StringArray:
        """Return the canonical paths of plain ones, which have no percent-encoding."""
        return self.keys(percent_encode(paths))

    def uris(self, paths: pa.StringArray) -> pa.StringArray:
        """Return absolute locations: plain paths for a local table, else percent-encoded URIs."""
        plain = self.decoded(paths)
        data, offsets = string_buffers(plain)
        absolute = None
        if has_byte(data, _COLON) or any_starts_with(data, offsets, _SLASH):
            absolute = pc.match_substring_regex(plain, pattern=_ABSOLUTE.pattern)
        encoded = plain if self._is_local else percent_encode(plain)
        below = pc.utf8_replace_slice(
            encoded, start=0, stop=0, replacement=f"{self.root.rstrip('/')}/"
        )
        if absolute is None:
            return below
        if self._is_local:  # a URI of another store is returned as the log has it
            elsewhere = pc.if_else(pc.match_substring_regex(plain, pattern="^/"), plain, paths)
        else:
            elsewhere = replace_prefix(encoded, "^/", f"{_authority(self.root)}/")
        return pc.if_else(absolute, elsewhere, below)

    def client_uris(self, paths: pa.StringArray) -> pa.StringArray:
        """Return absolute URIs that a client may open, percent-encoded: `file:` ones if local.

        Raises:
            PathNotAllowedError: As `to_open`.
        """
        plain = self.decoded(paths)
        if self._is_below(plain):
            root = build_array([f"{self.root.rstrip('/')}/"], PrimitiveType("string"))
            below = f"file://{percent_encode(root)[0]}" if self._is_local else root[0].as_py()
            return pc.binary_join_element_wise(below, percent_encode(plain), "")
        keys, uris = self.keys(paths), self.uris(paths)
        data, offsets = string_buffers(keys)
        leaves = has_byte(data, _COLON) or any_starts_with(data, offsets, _SLASH)
        if leaves or any_starts_with(data, offsets, _DOT):
            outside = pc.match_substring_regex(keys, pattern=rf"{_ABSOLUTE.pattern}|^\.\.(/|$)")
            for root, _ in self._allowed:
                prefix = f"{root.rstrip('/')}/"
                outside = pc.and_not(outside, pc.starts_with(keys, pattern=prefix))
            for path in paths.filter(outside).to_pylist():
                self.to_open(path)
        if not self._is_local:
            return uris
        files = pc.binary_join_element_wise("file://", percent_encode(uris), "")
        elsewhere = pc.match_substring_regex(uris, pattern=_SCHEME) if leaves else None
        return files if elsewhere is None else pc.if_else(elsewhere, uris, files)

    def _is_below(self, plain: pa.StringArray) -> bool:
        """Whether all paths are relative and canonical: their files are below the root."""
        data, offsets = string_buffers(plain)
        is_absolute = has_byte(data, _COLON) or any_starts_with(data, offsets, _SLASH)
        return not is_absolute and not _may_be_redundant(data, offsets)

    def to_open(self, path: str, *, decoded: bool = False, within: str = "") -> Location:
        """Return the location of a file to open.

        Args:
            path: The path of the log: relative to the table's root or absolute.
            decoded: Whether `path` is plain already (it is from `decoded`, or it was composed like
                the names of deletion vector files).
            within: A directory of the table that must contain the file, and that a relative path
                starts from, such as `_delta_log/_sidecars`. Allowed roots are not used then.

        Raises:
            PathNotAllowedError: The path is outside the table's root and all allowed roots, or
                stores and file systems could interpret it differently.
        """
        plain = path if decoded else percent_decode_one(path)
        self._check_characters(path, plain)
        own = f"{self._own.rstrip('/')}/{within}".rstrip("/")
        absolute = (
            self._absolute(plain) if _ABSOLUTE.match(plain) else _normalized(f"{own}/{plain}")
        )
        relative = _relative_to(own, absolute)
        if relative is not None:
            return Location(None, f"{within}/{relative}" if within else relative)
        for root, name in () if within else self._allowed:
            relative = _relative_to(root, absolute)
            if relative is not None:
                return Location(name, relative)
        raise PathNotAllowedError(self.root, path, f"it is not in {within or 'the table'}")

    def _absolute(self, absolute: str) -> str:
        """Return the canonical form of an absolute path or URI."""
        if not absolute.startswith("/"):
            absolute = _canonical(absolute, local=self._is_local)
        elif not self._is_local:
            absolute = _authority(self._own) + absolute
        return _normalized(absolute)

    def _check_characters(self, path: str, plain: str) -> None:
        reason = ""
        if not plain:
            reason = "it is empty"
        elif plain.startswith("//"):
            reason = "it begins with //, which may name a host"
        elif _UNSAFE.search(plain):
            reason = "it has a backslash or a control character"
        elif not plain.isascii() and any("\ud800" <= character <= "\udfff" for character in plain):
            reason = "it is not valid Unicode"
        if reason:
            raise PathNotAllowedError(self.root, path, reason)


def _canonical_root(setting: str, root: str) -> str:
    """Return the canonical form of a root, without a trailing slash."""
    if not _ABSOLUTE.match(root):
        raise ConfigError(setting, f"{root!r} is neither a URL nor an absolute path")
    plain = root if root.startswith("/") else _canonical(percent_decode_one(root), local=True)
    return _normalized(plain).rstrip("/") or "/"


def _canonical(uri: str, *, local: bool) -> str:
    for pattern, to in _ALIAS_PATTERNS if local else _ALIAS_PATTERNS[1:]:
        uri = pattern.sub(to, uri, count=1)
    return uri


def _authority(uri: str) -> str:
    """Return `scheme://authority` of a URI."""
    match = _URI.match(uri)
    return f"{match[1]}://{match[2]}" if match else ""


def _relative_to(root: str, path: str) -> str | None:
    """Return `path` relative to `root`; None if it is outside."""
    prefix = root.rstrip("/") + "/"
    relative = path.removeprefix(prefix) if path.startswith(prefix) else ""
    return None if not relative or relative.partition("/")[0] == ".." else relative


def _normalized(plain: str) -> str:
    """Return a path without `.`, `..` and empty segments; leading `..` of a relative one stay."""
    match = _URI.fullmatch(plain)
    head, rest = (f"{match[1]}://{match[2]}", match[3] or "") if match else ("", plain)
    rooted = rest.startswith("/")
    segments: list[str] = []
    for segment in rest.split("/"):
        if segment in ("", "."):
            continue
        if segment == ".." and segments and segments[-1] != "..":
            segments.pop()
        else:
            segments.append(segment)
    return head + ("/" if rooted else "") + "/".join(segments)


def _may_be_redundant(data: Bytes, offsets: Offsets) -> bool:
    """Whether any path may have `//` (except after a scheme), `/.`, or a leading dot."""
    slashes = np.flatnonzero(data[:-1] == _SLASH)
    following = data[slashes + 1]
    pairs = slashes[(following == _SLASH) | (following == _DOT)]
    if len(pairs):
        of_scheme = (data[pairs - 1] == _COLON) & (data[pairs + 1] == _SLASH) & (pairs > 0)
        if not of_scheme.all():
            return True
    return any_starts_with(data, offsets, _DOT)
