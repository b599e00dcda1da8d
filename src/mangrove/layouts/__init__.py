"""The storage layouts, which map lakehouse metadata to files."""
