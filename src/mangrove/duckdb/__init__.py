"""DuckDB as an SQL engine in this process."""
