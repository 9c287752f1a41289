"""Test suites and builders for those who extend lazydelta, and for its own tests."""

from __future__ import annotations

from lazydelta.testing.store_contract import StoreContract

__all__ = ["StoreContract"]
