"""Benchmarks of lazydelta and its peers: synthetic logs, measured runs, a report.

Outside the package on purpose: nothing of lazydelta imports this, and only `engines` imports it.
"""
