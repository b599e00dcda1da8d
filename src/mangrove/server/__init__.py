"""One process that serves a lakehouse over HTTP."""
