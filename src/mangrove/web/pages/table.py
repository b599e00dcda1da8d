"""Table, partition and delta pages."""

from typing import Final

from mangrove.inspect.formatting import format_compact, format_count, format_size, format_value
from mangrove.inspect.partition import DataFileInfo, DeltaInfo, DeltaLine, PartitionInfo
from mangrove.inspect.table import TableInfo
from mangrove.inspect.table_files import TableFilesInfo
from mangrove.maintenance.progress import format_quantity
from mangrove.model.locators import TableLocator
from mangrove.web.links import Links
from mangrove.web.pages.connect import IcebergConnection, render_snippets
from mangrove.web.pages.plot import PlotPoint, build_plot
from mangrove.web.rendering import render_page

__all__ = ["render_delta_page", "render_partition_page", "render_table_files_page", "render_table_page"]

_FILES_OPEN_MAX: Final = 3
"""With more files the statistics of each are collapsed."""


def render_table_page(info: TableInfo, api_address: str, connection: IcebergConnection | None = None) -> bytes:
    """Return the page of a table; `connection` adds snippets for Iceberg clients."""
    return render_page(
        "table.html",
        info,
        api_address,
        snippets=[*render_snippets(connection, TableLocator(info.namespace, info.name))] if connection else [],
        has_token=connection is not None and connection.has_token,
    )


def render_table_files_page(info: TableFilesInfo, api_address: str, *, csrf_token: str | None = None) -> bytes:
    """Return the page of the live files of a table; with a CSRF token, a compaction has a form."""
    links = Links(info.seen.requested)
    plots = []
    if len(info.points) > 1:
        files = [PlotPoint(point.version, point.files) for point in info.points]
        sizes = [PlotPoint(point.version, point.size_bytes) for point in info.points]
        plots = [
            build_plot("Data files", files, format_compact, links),
            build_plot("Size of the data files", sizes, format_size, links),
        ]
    return render_page("files.html", info, api_address, plots=plots, csrf_token=csrf_token)


def render_partition_page(info: PartitionInfo, api_address: str) -> bytes:
    """Return the page of a partition with its deltas."""
    return render_page("partition.html", info, api_address, describe_delta=_describe_delta)


def render_delta_page(info: DeltaInfo, api_address: str) -> bytes:
    """Return the page of a delta with its files."""
    return render_page(
        "delta.html",
        info,
        api_address,
        describe_delta=_describe_delta,
        describe_file=_describe_file,
        files_open_max=_FILES_OPEN_MAX,
    )


def _describe_delta(delta: DeltaLine) -> str:
    if delta.replaced_files:
        return f"{delta.type} of {format_quantity(delta.replaced_files, 'file')}"
    if delta.replaces_through is not None:
        return f"{delta.type} of all rows up to position {format_count(delta.replaces_through)}"
    return delta.type.replace("_", " ")


def _describe_file(file: DataFileInfo) -> str:
    text = f"{format_quantity(file.rows, 'row')}, {format_size(file.size_bytes)}, {file.kind.replace('_', ' ')}"
    if file.partition_values:
        text += f", of {', '.join(format_value(value) for value in file.partition_values)}"
    return text
