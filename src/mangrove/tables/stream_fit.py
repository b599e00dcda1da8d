"""Deciding whether files that were written for a table as it was still belong into it as it is."""

from mangrove.tables.table_state import TableState

__all__ = ["still_fits"]


def still_fits(written_for: TableState, now: TableState) -> bool:
    """Return whether files written for one state of a table can be added to another.

    Columns are found by their ids, so one that was added, renamed or widened since
    does no harm. Other keys or partitions put rows into other logs, and a column
    that must not be null now may be so in the files.
    """
    if written_for.table_id != now.table_id or written_for.log_scheme != now.log_scheme:
        return False
    was, version = written_for.version, now.version
    if (was.version, was.latest_stream_id, was.keys) != (version.version, version.latest_stream_id, version.keys):
        return False
    if was.partition_scheme != version.partition_scheme:
        return False
    certain = {column.id for column in written_for.schema.columns if not column.nullable}
    return all(column.nullable or column.id in certain for column in now.schema.columns)
