"""Maintenance operations of the tree layout."""
