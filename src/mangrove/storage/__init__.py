"""Bytes at paths: the storage port with its stores and wrappers."""
