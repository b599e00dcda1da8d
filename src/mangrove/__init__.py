"""Mangrove: a lakehouse that is nothing but files in your bucket."""
