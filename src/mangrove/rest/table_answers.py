"""What is told of one table: the metadata of the state that is asked about, written first where nobody asked before."""

import json
from typing import Final

from starlette.responses import Response

from mangrove.errors import InvalidInputError
from mangrove.iceberg.showing import Shown, show
from mangrove.lakehouse.past import PastLakehouse
from mangrove.lakehouse.table_staging import table_state
from mangrove.model.locators import TableLocator
from mangrove.rest.asked import Asked, Served
from mangrove.rest.catalog_answers import answered
from mangrove.rest.found import table_asked
from mangrove.rest.refusals import UNSUPPORTED, refused
from mangrove.tables.shown_names import METADATA_ENDING

__all__ = ["is_known", "loaded", "shown_table", "table_answer"]

_SNAPSHOTS: Final = ("all", "refs")


def table_answer(asked: Asked) -> Response:
    """Return a table, or that the client knows it as it is.

    There is one snapshot, which a branch refers to, so all of them and those that are referred to are the same.
    """
    snapshots = asked.query.get("snapshots", _SNAPSHOTS[0])
    if snapshots not in _SNAPSHOTS:
        raise InvalidInputError(f"snapshots is {snapshots[:40]!r}: give 'all' or 'refs'")
    seen = asked.seen()
    locator, _ = table_asked(seen, asked)
    try:
        shown = shown_table(asked.served, seen, locator)
    except InvalidInputError as error:
        # Nothing is wrong with the request, so clients should not say that it is malformed.
        return refused(406, str(error), UNSUPPORTED)
    if is_known(asked.headers.get("if-none-match", ""), _tag(shown)):
        return Response(status_code=304, headers={"ETag": _tag(shown)})
    return loaded(shown)


def shown_table(served: Served, seen: PastLakehouse, locator: TableLocator) -> Shown:
    """Show a table to Iceberg's engines as one version has it."""
    state = table_state(seen.reading(), locator)
    return show(served.lake.effects.store, state, seen.snapshot.commit.created_at_millis)


def loaded(shown: Shown) -> Response:
    """Return a table as those are told it who load it, or have made or changed it.

    How the bucket is reached was told with the catalog's configuration. Told again here it
    would be taken for credentials: DuckDB then leaves aside the key that it was given.
    """
    found = answered(
        {
            "metadata-location": shown.metadata_address,
            "metadata": json.loads(shown.metadata.model_dump_json()),
            "config": {},
        }
    )
    found.headers["ETag"] = _tag(shown)
    return found


def is_known(header: str, tag: str) -> bool:
    """Return whether a client says that it has what the tag stands for.

    >>> is_known('W/"1-a", "2-b"', '"2-b"'), is_known('"1-a"', '"2-b"'), is_known("*", '"2-b"')
    (True, False, True)
    """
    given = [one.strip().removeprefix("W/") for one in header.split(",")]
    return "*" in given or tag in given


def _tag(shown: Shown) -> str:
    """Return what changes with the metadata, whose file is named by a digest of all that it tells."""
    return f'"{shown.metadata_address.rpartition("/")[2].removesuffix(METADATA_ENDING)}"'
