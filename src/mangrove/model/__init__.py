"""Immutable data classes for the objects of a lakehouse."""
