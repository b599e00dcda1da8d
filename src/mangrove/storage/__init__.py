"""Object stores behind one interface, with caching and counting wrappers."""
