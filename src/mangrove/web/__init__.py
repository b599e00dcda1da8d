"""Explorer: HTML pages and a JSON API for one lakehouse."""
