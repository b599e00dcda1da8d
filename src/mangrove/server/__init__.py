"""HTTP server for the explorer and the Iceberg REST catalog."""
