"""Bytes <-> Arrow: JSON lines and file statistics. Knows no log, no versions, no tables."""

from lazydelta.files.json_lines import (
    BadLineError,
    JsonLimits,
    are_objects,
    decode_lines,
    parse_object,
    split_lines,
    tidy_lines,
)
from lazydelta.files.stats import num_records, parse_stats

__all__ = [
    "BadLineError",
    "JsonLimits",
    "are_objects",
    "decode_lines",
    "num_records",
    "parse_object",
    "parse_stats",
    "split_lines",
    "tidy_lines",
]
