"""The DeltaCAT layout with revision files, name mappings, a transaction log and version guards."""
