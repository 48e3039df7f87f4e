"""What a Delta table and its commits bring into a mirror.

May import `table` and the kernel.
"""
