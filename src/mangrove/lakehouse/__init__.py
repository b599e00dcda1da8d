"""The lakehouse as people use it: create, open, look back, change."""
