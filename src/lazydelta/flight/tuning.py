"""Numbers that tune the Flight client."""

from __future__ import annotations

BATCHES_AHEAD = 2
"""Batches of each endpoint that wait for the consumer: the next one arrives meanwhile."""

EARLY_SECONDS = 60.0
"""How long before their expiry tickets are not used any more: a share may start late."""
