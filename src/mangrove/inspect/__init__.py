"""Read-only information about lakehouse objects, for the command line and the explorer."""
