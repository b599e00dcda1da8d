"""Transactions with snapshot or serializable isolation."""
