"""What a table's data means, decided without touching any of it."""
