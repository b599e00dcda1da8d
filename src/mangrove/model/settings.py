"""Lakehouse settings for tree sizes and version retention."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.locators import LARGEST_INTEGER, Kind
from mangrove.model.names import check_name, check_text
from mangrove.model.properties import NO_PROPERTIES, FrozenMapping, Properties

__all__ = ["KNOWN_MAJOR_VERSION", "ORDER_MIN", "READABLE_BY_DELTACAT", "LakehouseSettings"]

KNOWN_MAJOR_VERSION: Final = 0
ORDER_MIN: Final = 3
READABLE_BY_DELTACAT: Final = "deltacat.readable"
"""The property with which a lakehouse in DeltaCAT's own form promises to hold only what DeltaCAT can read."""
_KEY_SCHEMA_ID_SIZE_BYTES: Final = 4
_SEVEN_DAYS_MILLIS: Final = 7 * 24 * 60 * 60 * 1000
_LARGEST_UINT32: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class LakehouseSettings:
    """What is decided when a lakehouse is made; changing a size would mean writing every key anew."""

    name: str = ""
    """What people call the lakehouse."""
    major_version: int = KNOWN_MAJOR_VERSION
    """The major version of the format; a program that does not know it refuses the lakehouse."""
    order: int = 128
    """How many keys a node of the tree holds at most."""
    namespace_name_max_size_bytes: int = 100
    """How many bytes the name of a namespace may take."""
    table_name_max_size_bytes: int = 100
    """How many bytes the name of a table or view may take."""
    file_path_max_size_bytes: int = 200
    """How many bytes the path of a file may take."""
    node_file_max_size_bytes: int = 1024 * 1024
    """How large a node file may be, by an estimate from the sizes above."""
    properties: Mapping[str, str] = NO_PROPERTIES
    """What people attached to the lakehouse, and the properties that are heeded."""
    maximum_version_age_millis: int = _SEVEN_DAYS_MILLIS
    """The age at which a version may go."""
    minimum_versions_to_keep: int = 3
    """How many of the newest versions stay, whatever their age."""
    maximum_version_age_millis_overrides: Mapping[int, int] = FrozenMapping[int, int]({})
    """The age at which a certain version may go, where it differs from the common one."""
    exported_snapshots: Mapping[str, str] = NO_PROPERTIES
    """The location of the root node of each export, by the export's name."""

    def __post_init__(self) -> None:
        check_text(self.name, "the lakehouse's name")
        if self.major_version != KNOWN_MAJOR_VERSION:
            raise InvalidInputError(
                f"major_version is {self.major_version!r} and this release knows only {KNOWN_MAJOR_VERSION}: "
                "use a release of mangrove-lake that knows it"
            )
        for name, smallest, largest in _BOUNDS:
            value = getattr(self, name)
            if type(value) is not int or not smallest <= value <= largest:
                raise InvalidInputError(f"{name} is {value!r}: it is a whole number from {smallest} to {largest}")
        object.__setattr__(self, "properties", Properties(self.properties))
        object.__setattr__(self, "exported_snapshots", Properties(self.exported_snapshots))
        overrides = FrozenMapping(self.maximum_version_age_millis_overrides)
        for version, age_millis in overrides.items():
            if not all(type(number) is int and 0 <= number <= LARGEST_INTEGER for number in (version, age_millis)):
                raise InvalidInputError(
                    f"maximum_version_age_millis_overrides has {version!r}: {age_millis!r}; both are numbers from 0"
                )
        object.__setattr__(self, "maximum_version_age_millis_overrides", overrides)
        if self.key_table_size_bytes >= self.node_file_max_size_bytes:
            raise InvalidInputError(
                f"a node's key table takes {self.key_table_size_bytes} bytes (order {self.order} × "
                f"{self.row_size_bytes}), which leaves no room for a write buffer in node_file_max_size_bytes "
                f"{self.node_file_max_size_bytes}: lower the order or the name sizes, or allow larger node files"
            )

    @property
    def row_size_bytes(self) -> int:
        """What one row of a key table takes at most."""
        return (
            self.namespace_name_max_size_bytes
            + self.table_name_max_size_bytes
            + self.file_path_max_size_bytes
            + _KEY_SCHEMA_ID_SIZE_BYTES
        )

    @property
    def key_table_size_bytes(self) -> int:
        """What the key table of a full node takes at most; the rest of the node file is its write buffer."""
        return self.order * self.row_size_bytes

    def check_object_name(self, kind: Kind, name: str) -> None:
        """Refuse a name that is too long for this lakehouse or breaks the rules for names."""
        is_namespace = kind is Kind.NAMESPACE
        size_max = self.namespace_name_max_size_bytes if is_namespace else self.table_name_max_size_bytes
        check_name(name, kind.word, size_max)

    def check_file_path(self, path: str) -> None:
        """Refuse a path that this lakehouse's nodes have no room for."""
        check_text(path, "path")
        if not path or len(path.encode()) > self.file_path_max_size_bytes:
            raise InvalidInputError(
                f"path {path!r} takes {len(path.encode())} bytes: this lakehouse allows 1 to "
                f"{self.file_path_max_size_bytes}"
            )


_BOUNDS: Final = (
    ("order", ORDER_MIN, _LARGEST_UINT32),
    ("namespace_name_max_size_bytes", 1, _LARGEST_UINT32),
    ("table_name_max_size_bytes", 1, _LARGEST_UINT32),
    ("file_path_max_size_bytes", 1, _LARGEST_UINT32),
    ("node_file_max_size_bytes", 1, LARGEST_INTEGER),
    ("maximum_version_age_millis", 0, LARGEST_INTEGER),
    ("minimum_versions_to_keep", 1, _LARGEST_UINT32),
)
