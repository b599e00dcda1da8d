"""Assignment of live data files to Iceberg partition specs and partition values."""

from collections.abc import Sequence
from dataclasses import dataclass

from pyiceberg.typedef import Record

from mangrove.errors import InvalidInputError
from mangrove.iceberg.partition_specs import PublishedPartitionSpec, list_published_specs
from mangrove.iceberg.values import has_partition_record, to_partition_record
from mangrove.model.manifests import IDENTITY_ENCODING, PARQUET, DataFile
from mangrove.model.partitioning import PartitionScheme
from mangrove.model.schema import Schema
from mangrove.model.values import Value
from mangrove.tables.iceberg_names import format_file_identity
from mangrove.tables.scan_plan import FileScan
from mangrove.tables.table_state import TableState

__all__ = ["PartitionedFile", "assign_partitions"]


@dataclass(frozen=True, slots=True)
class PartitionedFile:
    """A data file with its published partition spec and partition values."""

    scan: FileScan
    address: str
    published: PublishedPartitionSpec
    values: tuple[Value | None, ...]
    """One for each field of the scheme."""
    record: Record
    """The partition values as Iceberg encodes them."""

    @property
    def identity(self) -> str:
        """Text that determines the manifest entry, for the digest of the manifest."""
        return f"{format_file_identity(self.scan.file, self.scan.position)} {self.address} {self.values!r}"


def assign_partitions(state: TableState, addresses: Sequence[str], scans: Sequence[FileScan]) -> list[PartitionedFile]:
    """Return the data files of a state, sorted by spec id and otherwise in their order."""
    schemes = list_published_specs(state.version)
    records: dict[tuple[int, tuple[Value | None, ...]], Record] = {}
    files: list[PartitionedFile] = []
    for scan, address in zip(scans, addresses, strict=True):
        _check_readable(state.name, scan.file)
        published, values = _find_partition(state, scan, schemes)
        key = published.spec.spec_id, values
        if key not in records:
            records[key] = to_partition_record(values, published.scheme, state.schema)
        files.append(PartitionedFile(scan, address, published, values, records[key]))
    return sorted(files, key=lambda one: one.published.spec.spec_id)


def _find_partition(
    state: TableState, scan: FileScan, schemes: Sequence[PublishedPartitionSpec]
) -> tuple[PublishedPartitionSpec, tuple[Value | None, ...]]:
    """Return the spec and partition values of a file; without known values the unpartitioned spec."""
    if state.log_scheme.fields:
        scheme: PartitionScheme | None = state.log_scheme
        values: tuple[Value | None, ...] | None = scan.log_values
    else:
        scheme, values = state.scheme_of(scan.file), scan.file.partition_values
    for published in schemes[1:]:
        if published.scheme != scheme or values is None or len(values) != len(published.scheme.fields):
            continue
        is_encodable = has_partition_record(values, published.scheme, state.schema)
        if is_encodable and _are_nulls_allowed(values, published.scheme, state.schema):
            return published, values
    return schemes[0], ()


def _are_nulls_allowed(values: Sequence[Value | None], scheme: PartitionScheme, schema: Schema) -> bool:
    """Return whether only fields of nullable columns are null.

    A required column inside a struct is null where the struct is null.
    """
    fields = zip(scheme.fields, values, strict=True)
    return all(value is not None or schema.column_with_id(field.source_id).nullable for field, value in fields)


def _check_readable(table: str, file: DataFile) -> None:
    if file.content_type != PARQUET or file.content_encoding != IDENTITY_ENCODING:
        raise InvalidInputError(
            f"{table} has file {file.location} of type {file.content_type} ({file.content_encoding}), but only plain "
            "Parquet files can be published as Iceberg; compact the table"
        )
