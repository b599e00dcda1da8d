"""What a table's data means, decided without touching any of it.

The modules that handles of tables use are imported when they are first named, as in
`tables.evolution.with_default`: to list tables takes none of them.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mangrove.tables import (
        assigning,
        compaction,
        conditions,
        constraints,
        defaults,
        evolution,
        expressions,
        heeded_properties,
        merging,
        partial,
        partition_choice,
        predicate_text,
        predicates,
        scan_plan,
        table_state,
    )

__all__ = [
    "assigning",
    "compaction",
    "conditions",
    "constraints",
    "defaults",
    "evolution",
    "expressions",
    "heeded_properties",
    "merging",
    "partial",
    "partition_choice",
    "predicate_text",
    "predicates",
    "scan_plan",
    "table_state",
]


def __getattr__(name: str) -> ModuleType:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return importlib.import_module(f"{__name__}.{name}")
