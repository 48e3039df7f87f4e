"""Lakeport shares, reads and converts Delta tables."""
