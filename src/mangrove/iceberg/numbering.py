"""The numbers of schemas, partition specs and sort orders: the server gives them, whatever a client says.

What is there already keeps its number. A number that a client gave to something new
stays where it is free, since the client may have written files by it, and is the next
one otherwise. So `-1`, the last that was added, is resolved here too.
"""

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema as IcebergSchema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.sorting import SortOrder
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSortOrderUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    TableUpdate,
)

__all__ = ["with_own_numbers"]

_LAST_ADDED: Final = -1
_NUMBER_MAX: Final = 2**31 - 1


def with_own_numbers(before: TableMetadata, updates: Iterable[TableUpdate]) -> Iterator[TableUpdate]:
    """Yield the updates with the numbers that the server gives; what is there already is not added again."""
    schemas = _Numbers.of((_columns(one), one.schema_id) for one in before.schemas)
    specs = _Numbers.of((_divided(one), one.spec_id) for one in before.partition_specs)
    orders = _Numbers.of((_ordered(one), one.order_id) for one in before.sort_orders)
    for update in updates:
        match update:
            case AddSchemaUpdate(schema_=schema):
                for number in schemas.added(_columns(schema), schema.schema_id):
                    yield update.model_copy(update={"schema_": schema.model_copy(update={"schema_id": number})})
            case AddPartitionSpecUpdate(spec=spec):
                for number in specs.added(_divided(spec), spec.spec_id):
                    yield update.model_copy(update={"spec": spec.model_copy(update={"spec_id": number})})
            case AddSortOrderUpdate(sort_order=order):
                # 0 is no order at all, so an order has another number.
                wanted = order.order_id or (_LAST_ADDED if order.fields else 0)
                for number in orders.added(_ordered(order), wanted):
                    yield update.model_copy(update={"sort_order": order.model_copy(update={"order_id": number})})
            case SetCurrentSchemaUpdate(schema_id=number):
                yield update.model_copy(update={"schema_id": schemas.meant(number)})
            case SetDefaultSpecUpdate(spec_id=number):
                yield update.model_copy(update={"spec_id": specs.meant(number)})
            case SetDefaultSortOrderUpdate(sort_order_id=number):
                yield update.model_copy(update={"sort_order_id": orders.meant(number)})
            case _:
                yield update


@dataclass(slots=True)
class _Numbers:
    """The numbers of one kind of thing, while the updates of one request are looked through."""

    by_content: dict[Any, int]
    taken: set[int]
    said: dict[int, int] = field(default_factory=dict)
    """By the numbers that the client gave: those that they became."""
    last: int = _LAST_ADDED

    @staticmethod
    def of(there: Iterable[tuple[Hashable, int]]) -> "_Numbers":
        found = dict(there)
        return _Numbers(found, set(found.values()))

    def added(self, content: Hashable, said: int) -> Iterator[int]:
        """Yield the number that something is to be added with, and nothing if it is there."""
        known = self.by_content.get(content)
        self.last = self._free(said) if known is None else known
        # A number that was there before means what it has meant.
        if said not in self.taken:
            self.said[said] = self.last
        if known is None:
            self.by_content[content] = self.last
            self.taken.add(self.last)
            yield self.last

    def meant(self, number: int) -> int:
        """Return the number of what the client means."""
        return self.last if number == _LAST_ADDED else self.said.get(number, number)

    def _free(self, said: int) -> int:
        is_free = 0 <= said <= _NUMBER_MAX and said not in self.taken
        return said if is_free else 1 + max(self.taken, default=_LAST_ADDED if said >= 0 else 0)


def _columns(schema: IcebergSchema) -> Hashable:
    return schema.model_dump_json(exclude={"schema_id"})


def _divided(spec: PartitionSpec) -> Hashable:
    return tuple((one.source_id, str(one.transform), one.name) for one in spec.fields)


def _ordered(order: SortOrder) -> Hashable:
    return tuple(order.fields)
