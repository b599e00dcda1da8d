"""Tables as Iceberg shows them to other engines, and what Iceberg's clients wrote as tables of ours."""
