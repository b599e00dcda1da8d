"""Expressions and predicates over columns: parsing, normal form and literals."""
