"""Recognition of queries that manifests answer: `SELECT count(*), max(id) FROM t WHERE day = 3`."""

from typing import Any, Final

from sqlglot import exp

from mangrove.model.schema import Schema
from mangrove.model.values import Value
from mangrove.sql.pushdown.constant_folding import ConstantResolver
from mangrove.sql.pushdown.pruning_predicates import build_exact_predicate
from mangrove.sql.pushdown.scopes import has_only_known_args
from mangrove.tables.aggregates import Aggregate, AggregateKind, compute_aggregates
from mangrove.tables.table_state import TableState

__all__ = ["compute_from_manifests"]

_KINDS: Final[dict[type, AggregateKind]] = {
    exp.Count: AggregateKind.COUNT,
    exp.Min: AggregateKind.MINIMUM,
    exp.Max: AggregateKind.MAXIMUM,
}
_COUNT_ROWS: Final = Aggregate(AggregateKind.COUNT)


def compute_from_manifests(
    tree: Any, state: TableState, constants: ConstantResolver
) -> tuple[Value | None, ...] | None:
    """Return the only row of a query on one table, or None if its files must be read."""
    if not isinstance(tree, exp.Select) or not has_only_known_args(tree, "expressions", "from_", "where"):
        return None
    table = tree.args["from_"].this if tree.args.get("from_") else None
    if not isinstance(table, exp.Table) or not has_only_known_args(table, "this", "db", "alias", "version"):
        return None
    alias = table.args.get("alias")
    if alias is not None and not has_only_known_args(alias, "this"):
        return None
    names = frozenset({table.name.casefold(), table.alias_or_name.casefold()})
    aggregates = [_read_aggregate(one.unalias(), names, state.schema) for one in tree.expressions]
    known = [one for one in aggregates if one is not None]
    if len(known) < len(aggregates):
        return None
    where = tree.args.get("where")
    predicate = None if where is None else build_exact_predicate(where.this, names, state.schema, constants)
    is_exact = where is None or predicate is not None
    return compute_aggregates(state, predicate, known) if is_exact else None


def _read_aggregate(node: Any, names: frozenset[str], schema: Schema) -> Aggregate | None:
    """Return the aggregate of a result column; None if it is anything else."""
    kind = _KINDS.get(type(node))
    if kind is None or not has_only_known_args(node, "this", "big_int"):
        return None
    match node.this:
        case exp.Star() | exp.Literal() if kind is AggregateKind.COUNT and has_only_known_args(
            node.this, "this", "is_string"
        ):
            return _COUNT_ROWS
        case exp.Column(this=exp.Identifier()) as column if column.table.casefold() in {"", *names} and not column.db:
            found = next((one for one in schema.columns if one.name.casefold() == column.name.casefold()), None)
            return None if found is None else Aggregate(kind, found.id)
        case _:
            return None
