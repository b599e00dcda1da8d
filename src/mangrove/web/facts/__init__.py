"""What each page of the explorer tells, read from a lakehouse as plain values."""
