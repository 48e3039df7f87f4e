"""What people give: rows, schemas and assignments, in any form that is understood.

May import the kernel.
"""
