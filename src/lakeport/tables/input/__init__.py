"""User input: rows, schemas and assignments in every supported form.

May import the kernel.
"""
