"""The state and the changes of a Delta table, as input for a mirror.

May import `table` and the kernel.
"""
