"""Maintenance operations of the DeltaCAT layout."""
