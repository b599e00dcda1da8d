"""Iceberg REST catalog."""
