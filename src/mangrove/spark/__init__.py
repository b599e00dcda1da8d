"""Spark engine."""
