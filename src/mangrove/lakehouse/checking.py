"""Integrity checks by URI, including lakehouses that cannot be opened."""

import os
from collections.abc import Mapping

from mangrove.effects import Effects, build_effects
from mangrove.errors import FormatError
from mangrove.lakehouse.opening import EnginesFactory, open_lakehouse
from mangrove.layouts.deltacat.maintenance.check import diagnose_catalog
from mangrove.layouts.tree.maintenance.check import diagnose_tree
from mangrove.maintenance.check import CheckReport, report_open_failure
from mangrove.maintenance.progress import ProgressCallback, ignore_progress
from mangrove.metastore import OpenFailure, Problem
from mangrove.storage.opening import open_store

__all__ = ["check_uri", "diagnose_open_failure"]


def check_uri(
    uri: str | os.PathLike[str],
    *,
    storage_options: Mapping[str, str] | None = None,
    engines: EnginesFactory | None = None,
    sample: int | None = None,
    repair: bool = False,
    engine: str | None = None,
    watch: ProgressCallback = ignore_progress,
) -> CheckReport:
    """Check everything that the versions of the lakehouse at a URI reference; see `Maintenance.check`."""
    try:
        lake = open_lakehouse(uri, storage_options=storage_options, engines=engines)
    except FormatError as error:
        return diagnose_open_failure(build_effects(open_store(uri, storage_options)), error)
    return lake.maintenance.check(sample=sample, repair=repair, engine=engine, watch=watch)


def diagnose_open_failure(effects: Effects, error: FormatError) -> CheckReport:
    """Return a report on a lakehouse that failed to open with the given error."""
    found = diagnose_tree(effects) or diagnose_catalog(effects)
    if found is None or not found.problems:
        found = OpenFailure((Problem(effects.store.uri, str(error)),), None if found is None else found.opens)
    return report_open_failure(found)
