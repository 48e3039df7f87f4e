"""Benchmarks: each prints a ratio against a peer that did the same work on the same data in the same run."""
