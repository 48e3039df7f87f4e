"""Many writers on one table, and writers that are killed: short in the tests, long with `make soak`."""
