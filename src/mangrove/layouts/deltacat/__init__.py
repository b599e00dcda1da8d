"""The DeltaCAT format: revision files, name mappings, a transaction log, and one guard for each version."""
