"""Table semantics: state, scan and write plans, pruning and schema evolution."""
