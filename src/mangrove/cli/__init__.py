"""Command line interface of Mangrove."""
