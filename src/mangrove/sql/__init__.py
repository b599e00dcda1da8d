"""The SQL surface: statements become calls on the lakehouse, and queries go to Spark as they were written."""
