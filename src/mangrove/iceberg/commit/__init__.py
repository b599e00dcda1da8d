"""Commits of Iceberg clients, translated into transactions."""
