"""Checking what lies at a URI, also where it cannot be opened: then the report says why, and what still can be."""

import os
from collections.abc import Mapping

from mangrove.effects import Effects, real_effects
from mangrove.errors import FormatError
from mangrove.lakehouse.layouts import unopened_laid_out
from mangrove.lakehouse.opening import EnginesMaker
from mangrove.lakehouse.opening import open as open_lakehouse
from mangrove.maintenance.check import CheckReport, report_of_unopened
from mangrove.maintenance.progress import Watch, unwatched
from mangrove.metastore import Problem, Unopened
from mangrove.storage.opening import open_store

__all__ = ["check_at", "unopened_report"]


def check_at(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    engines: EnginesMaker | None = None,
    sample: int | None = None,
    repair: bool = False,
    engine: str | None = None,
    watch: Watch = unwatched,
) -> CheckReport:
    """Look at everything that the versions of the lakehouse at a URI reach; see `Lakehouse.check`."""
    try:
        lake = open_lakehouse(uri, storage_options=storage_options, engines=engines)
    except FormatError as error:
        return unopened_report(real_effects(open_store(uri, storage_options)), error)
    return lake.check(sample=sample, repair=repair, engine=engine, watch=watch)


def unopened_report(effects: Effects, error: FormatError) -> CheckReport:
    """Return what is known about a lakehouse that could not be opened for that reason."""
    found = unopened_laid_out(effects)
    if found is None or not found.problems:
        found = Unopened((Problem(effects.store.uri, str(error)),), None if found is None else found.opens)
    return report_of_unopened(found)
