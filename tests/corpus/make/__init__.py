"""Make the corpus: tables of other writers, with the rows that each writer reads back. Lakeport takes no part in it."""
