"""The layouts: how a lakehouse lies on storage."""
