"""Order a table's rows: choose the columns, rewrite the rows in that order, and report the effect."""
