"""A change made a snapshot: entries, metrics, delete files, manifests, the summary.

May import `delta`, `manifests` and all below them.
"""
