"""The order of a table's rows: by which columns, and writing the rows again in that order."""
