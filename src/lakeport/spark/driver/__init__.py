"""The driver-side service for Spark tasks that use Spark's own reader.

May import `engine` and the kernel.
"""
