"""Bytes <-> Arrow: JSON lines and file statistics. Knows no log, no versions, no tables."""

from lazydelta.files.json_lines import (
    BadLineError,
    JsonLimits,
    decode_lines,
    parse_object,
    tidy_lines,
)

__all__ = ["BadLineError", "JsonLimits", "decode_lines", "parse_object", "tidy_lines"]
