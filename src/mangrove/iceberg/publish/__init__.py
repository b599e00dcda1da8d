"""Publishing of table states as Iceberg metadata."""
