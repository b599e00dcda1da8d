"""Deterministic simulation of concurrent writers with crashes, lost responses and clock skew."""
