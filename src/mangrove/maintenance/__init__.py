"""Keeping a lakehouse in order: expiry, vacuum, exports and checks, on either layout."""
