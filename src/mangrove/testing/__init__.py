"""Test contracts, strategies and fakes for implementations of stores and layouts."""
