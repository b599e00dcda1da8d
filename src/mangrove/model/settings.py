"""Lakehouse settings: tree sizes, version retention, the time limit of transactions and the clock tolerance."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from mangrove.errors import InvalidInputError
from mangrove.model.locators import LARGEST_INTEGER, Kind
from mangrove.model.names import check_name, check_text
from mangrove.model.paths import is_uri
from mangrove.model.properties import NO_PROPERTIES, FrozenMapping, Properties

__all__ = [
    "CLOCK_TOLERANCE_PROPERTY",
    "INTENTS_PROPERTY",
    "KEY_SCHEMA_ID_SIZE_BYTES",
    "KNOWN_MAJOR_VERSION",
    "ORDER_MIN",
    "READABLE_BY_DELTACAT",
    "STRICT_TREE",
    "TIME_LIMIT_PROPERTY",
    "LakehouseSettings",
    "clock_tolerance_millis",
    "time_limit_millis",
]

KNOWN_MAJOR_VERSION: Final = 0
ORDER_MIN: Final = 3
READABLE_BY_DELTACAT: Final = "deltacat.readable"
"""The property of a lakehouse that must stay readable by DeltaCAT."""
STRICT_TREE: Final = "tree.strict"
"""The lakehouse property, fixed at creation, of a tree without Mangrove's extensions: `true`, or absent."""
INTENTS_PROPERTY: Final = "transaction.intents"
"""The lakehouse property that turns on group commit across processes: `true`, or absent. Not in a strict tree."""
KEY_SCHEMA_ID_SIZE_BYTES: Final = 4
_SEVEN_DAYS_MILLIS: Final = 7 * 24 * 60 * 60 * 1000
_LARGEST_UINT32: Final = 2**32 - 1


@dataclass(frozen=True, slots=True)
class LakehouseSettings:
    """The settings of a lakehouse, fixed at creation; changing a size would rewrite all keys."""

    name: str = ""
    """The name of the lakehouse."""
    major_version: int = KNOWN_MAJOR_VERSION
    """The major version of the format; programs reject an unknown one."""
    order: int = 128
    """The maximum number of children of a tree node."""
    namespace_name_max_size_bytes: int = 100
    """The maximum size of a namespace name in bytes."""
    table_name_max_size_bytes: int = 100
    """The maximum size of a table or view name in bytes."""
    file_path_max_size_bytes: int = 200
    """The maximum size of a file path in bytes."""
    node_file_max_size_bytes: int = 1024 * 1024
    """The maximum size of a node file, estimated from the sizes above."""
    properties: Mapping[str, str] = NO_PROPERTIES
    """User-defined and built-in properties."""
    maximum_version_age_millis: int = _SEVEN_DAYS_MILLIS
    """The age at which a version may expire."""
    minimum_versions_to_keep: int = 3
    """The number of newest versions that never expire."""
    maximum_version_age_millis_overrides: Mapping[int, int] = FrozenMapping[int, int]({})
    """The age at which single versions may expire, if it differs."""
    exported_snapshots: Mapping[str, str] = NO_PROPERTIES
    """The location of the root node of each export, by export name."""

    def __post_init__(self) -> None:
        check_text(self.name, "the lakehouse's name")
        if self.major_version != KNOWN_MAJOR_VERSION:
            raise InvalidInputError(
                f"unsupported major_version {self.major_version!r}; this release supports {KNOWN_MAJOR_VERSION}; "
                "use a newer release of mangrove-lake"
            )
        for name, smallest, largest in _BOUNDS:
            value = getattr(self, name)
            if type(value) is not int or not smallest <= value <= largest:
                raise InvalidInputError(f"invalid {name} {value!r}; expected an integer from {smallest} to {largest}")
        object.__setattr__(self, "properties", Properties(self.properties))
        object.__setattr__(self, "exported_snapshots", Properties(self.exported_snapshots))
        overrides = FrozenMapping(self.maximum_version_age_millis_overrides)
        for version, age_millis in overrides.items():
            if not all(type(number) is int and 0 <= number <= LARGEST_INTEGER for number in (version, age_millis)):
                raise InvalidInputError(
                    f"maximum_version_age_millis_overrides has {version!r}: {age_millis!r}; both are numbers from 0"
                )
        object.__setattr__(self, "maximum_version_age_millis_overrides", overrides)
        self.check_node_size()

    @property
    def is_readable_by_deltacat(self) -> bool:
        """Whether the lakehouse must stay readable by DeltaCAT, so that writes are copy-on-write."""
        return self.properties.get(READABLE_BY_DELTACAT, "").lower() == "true"

    @property
    def is_strict_tree(self) -> bool:
        """Whether the tree contains only what its format describes."""
        return self.properties.get(STRICT_TREE, "").lower() == "true"

    @property
    def has_intents(self) -> bool:
        """Whether processes commit as a group if they compete for the next version; never in a strict tree."""
        return self.properties.get(INTENTS_PROPERTY, "").lower() == "true" and not self.is_strict_tree

    @property
    def allows_inline_rows(self) -> bool:
        """Whether manifests may contain rows, which readers of the original formats do not find."""
        return not self.is_strict_tree and not self.is_readable_by_deltacat

    def row_size_bytes(self, schema_id_size_bytes: int = KEY_SCHEMA_ID_SIZE_BYTES) -> int:
        """Return the maximum size of one row of a key table; the older revision of the tree format has larger keys."""
        return (
            self.namespace_name_max_size_bytes
            + self.table_name_max_size_bytes
            + self.file_path_max_size_bytes
            + schema_id_size_bytes
        )

    def key_table_size_bytes(self, schema_id_size_bytes: int = KEY_SCHEMA_ID_SIZE_BYTES) -> int:
        """Return the maximum size of a full key table; the rest of the node file is its write buffer."""
        return self.order * self.row_size_bytes(schema_id_size_bytes)

    def check_node_size(self, schema_id_size_bytes: int = KEY_SCHEMA_ID_SIZE_BYTES) -> None:
        """Raise an error if a full key table leaves no room for a write buffer."""
        size_bytes = self.key_table_size_bytes(schema_id_size_bytes)
        if size_bytes >= self.node_file_max_size_bytes:
            raise InvalidInputError(
                f"a node's key table takes {size_bytes} bytes (order {self.order} × "
                f"{self.row_size_bytes(schema_id_size_bytes)}), which leaves no room for a write buffer in "
                f"node_file_max_size_bytes {self.node_file_max_size_bytes}: lower the order or the name sizes, or "
                "allow larger node files"
            )

    def check_object_name(self, kind: Kind, name: str) -> None:
        """Raise an error for a name that is too long for this lakehouse or invalid."""
        if kind is Kind.ALIAS:
            *namespace, last = name.split("|")
            self.check_object_name(Kind.TABLE if namespace else Kind.NAMESPACE, last)
            return
        if name in (".", ".."):
            raise InvalidInputError(
                f"{kind.word} {name!r} has the name of a folder in paths and URIs; choose another name"
            )
        is_namespace = kind is Kind.NAMESPACE
        size_max = self.namespace_name_max_size_bytes if is_namespace else self.table_name_max_size_bytes
        check_name(name, kind.word, size_max)

    def check_file_path(self, path: str) -> None:
        """Raise an error for a path that is too long for this lakehouse."""
        check_text(path, "path")
        if not path or len(path.encode()) > self.file_path_max_size_bytes:
            raise InvalidInputError(
                f"path {path!r} takes {len(path.encode())} bytes: this lakehouse allows 1 to "
                f"{self.file_path_max_size_bytes}"
            )

    def check_data_path(self, location: str) -> None:
        """Raise an error for a data file whose path is too long; the format does not limit URIs of other places."""
        if not is_uri(location):
            self.check_file_path(location)


_BOUNDS: Final = (
    ("order", ORDER_MIN, _LARGEST_UINT32),
    ("namespace_name_max_size_bytes", 1, _LARGEST_UINT32),
    ("table_name_max_size_bytes", 1, _LARGEST_UINT32),
    ("file_path_max_size_bytes", 1, _LARGEST_UINT32),
    ("node_file_max_size_bytes", 1, LARGEST_INTEGER),
    ("maximum_version_age_millis", 0, LARGEST_INTEGER),
    ("minimum_versions_to_keep", 1, _LARGEST_UINT32),
)


TIME_LIMIT_PROPERTY: Final = "transaction.time-limit-millis"
"""How long a transaction may take before its commit is refused: 3600000, an hour, unless set.

A property of the lakehouse. Expiry and vacuum wait for more than twice as long.
"""
CLOCK_TOLERANCE_PROPERTY: Final = "transaction.clock-tolerance-millis"
"""How far in the future the newest version may be dated before commits are refused: the time limit, unless set.

A property of the lakehouse. Whoever opens it can give another tolerance: `mangrove.open(…, clock_tolerance="1d")`.
"""
_HOUR_MILLIS: Final = 60 * 60 * 1000


def time_limit_millis(settings: LakehouseSettings) -> int:
    """Return the transaction time limit of this lakehouse."""
    return _millis(settings, TIME_LIMIT_PROPERTY, _HOUR_MILLIS)


def clock_tolerance_millis(settings: LakehouseSettings) -> int:
    """Return how far in the future the newest version may be dated at a commit."""
    return _millis(settings, CLOCK_TOLERANCE_PROPERTY, time_limit_millis(settings))


def _millis(settings: LakehouseSettings, name: str, default_millis: int) -> int:
    text = settings.properties.get(name)
    if text is None:
        return default_millis
    if not text.isdecimal() or not int(text):
        raise InvalidInputError(
            f"invalid value {text!r} of the lakehouse property {name}; expected milliseconds, an integer from 1"
        )
    return int(text)
