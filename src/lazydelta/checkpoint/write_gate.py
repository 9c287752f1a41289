"""May this engine write to a table? Asked before anything is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lazydelta.errors import UnsupportedFeatureError
from lazydelta.protocol.features import unwritable_features

if TYPE_CHECKING:
    from lazydelta.snapshot import SnapshotState

__all__ = ["require_writable"]


def require_writable(snapshot: SnapshotState) -> None:
    """Refuse a table whose protocol asks more of writers than this engine does.

    Raises:
        UnsupportedFeatureError: It names the features.
    """
    features = unwritable_features(snapshot.protocol)
    if features:
        raise UnsupportedFeatureError(snapshot.store.root, features, "write", "")
