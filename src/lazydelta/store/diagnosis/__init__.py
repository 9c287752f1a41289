"""Diagnosis of a store: what an address resolves to, and which requests work."""

from __future__ import annotations

from lazydelta.store.diagnosis.probes import Probe, StoreReport, check_store

__all__ = ["Probe", "StoreReport", "check_store"]
