"""The tree layout: TrinityLake's format of Arrow nodes and protobuf definitions."""
