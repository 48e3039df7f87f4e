"""Tests that concern the whole of Lakeport."""
