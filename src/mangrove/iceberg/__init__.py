"""Iceberg interoperability: publishing of table metadata and handling of client commits."""
