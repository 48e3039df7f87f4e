"""Planted faults, by which the suite itself is tested: `make faults`."""
