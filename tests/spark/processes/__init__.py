"""Tests that start Spark in processes of its own. They have no use for the session that the other tests share."""
