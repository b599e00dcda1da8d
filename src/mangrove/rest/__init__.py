"""The Iceberg REST endpoint: namespaces, tables and views for clients of that protocol."""
