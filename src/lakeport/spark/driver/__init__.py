"""What Spark's tasks ask the driver's process for, while they read by Spark's own reader.

May import `engine` and the kernel.
"""
