"""Transactions: begin on a version, stage, and commit all of it or nothing."""
