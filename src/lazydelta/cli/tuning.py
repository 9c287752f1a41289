"""Tuning numbers of the command line."""

from __future__ import annotations

TABLE_ROWS = 1000
"""Rows of one table on a terminal; column widths are computed per table."""
MAX_CELL_WIDTH = 40
"""Maximum width of a cell; if the columns do not fit, each value has its own line."""
SPARK_READ_ROWS = 10
"""Default number of rows that `lazydelta spark read` prints."""
PROGRESS_DELAY_SECONDS = 0.5
"""Commands that end sooner show no progress line."""
REDRAW_SECONDS = 0.2
"""Time between two updates of the progress line."""
JSON_BLOCK_BYTES = 1 << 20
"""Bytes of a JSON lines file that are parsed together."""
SHOWN_PATHS = 20
"""Paths that a maintenance command prints on a terminal."""
