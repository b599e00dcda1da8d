"""HTML pages of the explorer."""
