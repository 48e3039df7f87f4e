"""MERGE: clauses, sides, matches and the run.

May import the other packages of `tables`.
"""
