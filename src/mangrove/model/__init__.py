"""Frozen values that say what a lakehouse holds."""
