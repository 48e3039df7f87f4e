"""Expressions over Arrow batches, with the values and errors of Spark's ANSI mode.

May import the kernel.
"""

from lakeport.engine.expressions.evaluator import ArrowExpressions

__all__ = ["ArrowExpressions"]
