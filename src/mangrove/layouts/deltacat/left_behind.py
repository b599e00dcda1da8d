"""What a body says that Mangrove's model has no place for, and that only stays as long as the body does."""

from collections.abc import Iterator
from typing import Any, Final

from mangrove.layouts.deltacat.bodies import Body
from mangrove.layouts.deltacat.fields import EXTRAS
from mangrove.model.objects import TableVersion

__all__ = ["left_behind"]

_TOLD: Final = frozenset(
    [
        "ancestor_ids",
        "contentTypes",
        "deltaLocator",
        "description",
        "id",
        "latest_active_table_version",
        "latest_table_version",
        "manifest",
        "meta",
        "namespaceLocator",
        "partitionLocator",
        "partitionScheme",
        "partitionSchemeId",
        "partitionSchemes",
        "previousPartitionId",
        "previousStreamId",
        "previousStreamPosition",
        "previous_table_version",
        "properties",
        "schema",
        "schemas",
        "sortScheme",
        "sortSchemes",
        "state",
        "streamLocator",
        "streamPosition",
        "tableLocator",
        "tableVersionLocator",
        "type",
        "watermark",
    ]
)
"""The fields that an object says again wherever it is written."""


def left_behind(body: Body) -> Iterator[str]:
    """Yield the names of what goes when the object is written anew from its value alone."""
    for name, value in body.fields.items():
        if name not in _TOLD and name != EXTRAS and value not in (None, "", [], {}):
            yield f"the field {name}"
    properties: Any = body.fields.get("properties")
    if isinstance(properties, dict) and not all(isinstance(value, str) for value in properties.values()):
        yield "the type of properties that are no text"
    if isinstance(body.value, TableVersion):
        yield from _schemes(body.value, body.fields)


def _schemes(value: TableVersion, fields: Any) -> Iterator[str]:
    known = {scheme.id for scheme in value.partition_schemes if scheme.fields}
    known |= {scheme.id for scheme in value.sort_schemes if scheme.fields}
    for name in ("partitionSchemes", "sortSchemes"):
        for scheme in fields.get(name) or []:
            if isinstance(scheme, dict) and scheme.get("keys") and scheme.get("id") not in known:
                yield f"what DeltaCAT divides or orders rows by in {name}"
