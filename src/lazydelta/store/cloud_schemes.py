"""The URL schemes of each cloud."""

from __future__ import annotations

__all__ = ["AZURE_SCHEMES", "GCS_SCHEMES", "S3_SCHEMES"]

AZURE_SCHEMES = ("abfs", "abfss", "adl", "az", "azure", "https", "wasb", "wasbs")
S3_SCHEMES = ("s3", "s3a", "s3n")
GCS_SCHEMES = ("gcs", "gs")
