"""Turns a change into a snapshot: entries, metrics, delete files, manifests, the summary.

May import `delta`, `manifests` and all below them.
"""
