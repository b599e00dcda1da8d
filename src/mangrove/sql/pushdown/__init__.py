"""Predicate pushdown and column pruning for queries."""
