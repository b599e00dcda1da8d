"""Binding of tables and views in a query, and its execution on an SQL engine."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Final

from sqlglot import exp

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.expressions.predicates import Predicate, render_predicate_sql
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.lakehouse.sql_port import Arguments, Frame, PositionedText, SqlEngine, SqlErrorInfo
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.names import check_name, find_closest_name, join_name, quote_name
from mangrove.model.objects import TableEntry, TableType, ViewEntry
from mangrove.model.types import has_nanoseconds
from mangrove.model.values import Value
from mangrove.sql.errors import build_statement_error
from mangrove.sql.execute.table_functions import TABLE_FUNCTIONS, parse_table_function, run_table_function
from mangrove.sql.parse.as_of import AsOfExpression, evaluate_as_of
from mangrove.sql.parse.statements import ExecuteImmediate
from mangrove.sql.parse.table_refs import AnalyzedQuery, InvalidAsOfError, TableRef, analyze_query, parse_table_ref
from mangrove.sql.parse.text_rewrite import (
    TextReplacement,
    apply_replacements,
    assign_aliases,
    find_unresolved_name,
    replace_table_name,
)
from mangrove.sql.parse.tokens import (
    SqlFragment,
    SqlToken,
    build_error_at,
    format_with_caret,
    locate_errors_at,
    tokenize,
)
from mangrove.sql.pushdown.column_pruning import ColumnPruning, NamesOf, require_all_columns, select_read_columns
from mangrove.sql.pushdown.constant_folding import ConstantResolver
from mangrove.sql.pushdown.manifest_aggregates import compute_from_manifests
from mangrove.sql.pushdown.predicates import PredicatePushdown, PushedPredicate
from mangrove.sql.pushdown.pruning_predicates import build_table_predicate
from mangrove.sql.pushdown.scopes import TypedColumns
from mangrove.sql.resolver import NameResolver, expand_canonical, is_canonical, suggest_table_name
from mangrove.sql.statement_cache import (
    StatementCache,
    frame_cache_key_of,
    has_foreign_files,
    is_cached,
    plan_pruned_scan,
    statement_cache_of,
)
from mangrove.sql.views import annotate_view_errors, enter_view
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState, load_table_state, record_rows_read
from mangrove.transaction.aliases import locate_namespace, locate_table, locate_view
from mangrove.transaction.authorization import AuthorizedSnapshot
from mangrove.transaction.catalog import VIEW_NAMESPACE
from mangrove.transaction.deltas import TableTarget, open_table, split_version

__all__ = [
    "BoundQuery",
    "QueryBinder",
    "QueryScan",
    "ResolvedName",
    "ResolvedQuery",
    "ScanRequirements",
    "evaluate_constant",
    "evaluate_immediate_arguments",
    "evaluate_text",
    "set_variables",
]


@dataclass(frozen=True, slots=True)
class QueryScan:
    """A table that a query reads, and the predicate on the rows that it needs."""

    name: str
    state: TableState
    predicate: Predicate | None
    columns: tuple[str, ...] | None = None
    """The columns that are read; None for all, or if the engine prunes columns itself."""

    def plan(self) -> ScanPlan:
        """Return the scan plan: which files are read, and why others are skipped."""
        return plan_scan(self.state, self.predicate)

    def explain(self) -> str:
        """Return a readable summary of the files read and skipped, and the predicate."""
        plan = self.plan()
        why = "" if self.predicate is None else f", by {render_predicate_sql(self.predicate, self.state.schema)}"
        which = "" if self.columns is None else f"; columns {', '.join(self.columns)}"
        return f"{self.name}: {len(plan.files())} read, {len(plan.skipped)} skipped{why}{which}"


@dataclass(frozen=True, slots=True)
class ScanRequirements:
    """The rows and columns of a table or view that a query needs; by default all."""

    rows: PushedPredicate = ()
    columns: NamesOf = require_all_columns
    """Computed on demand; an engine that prunes columns itself does not need it."""


@dataclass(frozen=True, slots=True)
class ResolvedName:
    """The object that a name resolves to, in the catalog as of the requested version."""

    catalog: Catalog
    locator: TableLocator | ViewLocator
    value: TableEntry | ViewEntry
    target: TableTarget | None = None
    """The table, or the part of it that the name chooses."""
    as_of: int | str | None = None
    state: TableState | None = None
    """The state of a managed table."""


@dataclass(frozen=True, eq=False)
class ResolvedQuery:
    """A query text and its resolved names by position; names outside the lakehouse are not included."""

    read: AnalyzedQuery
    resolved: Mapping[int, ResolvedName]
    resolve_view: Callable[[ResolvedName], "ResolvedQuery"]
    """Resolves the query of a view."""

    @cached_property
    def columns(self) -> TypedColumns | None:
        """The result columns, if they are known."""
        is_prunable = self.read.parsed.is_prunable
        return PredicatePushdown(self._columns_of).scopes.columns(self.read.parsed.tree) if is_prunable else None

    def requirements_by_table(self, above: ScanRequirements) -> Callable[[TableRef], ScanRequirements]:
        """Return the scan requirements of each table reference, given those of the query itself."""
        parsed = self.read.parsed
        # A later pipe operator may see other rows than those that are filtered here.
        pushed_predicates = PredicatePushdown(self._columns_of, above.rows if parsed.is_prunable else ())
        needed = ColumnPruning(self.read, above.columns)

        def of(table_ref: TableRef) -> ScanRequirements:
            table = parsed.requested.get(table_ref.start)
            return (
                ScanRequirements()
                if table is None
                else ScanRequirements(pushed_predicates.on_table(table), lambda: needed.of_table(table))
            )

        return of

    def compute_from_manifests(self, constants: ConstantResolver) -> tuple[Value | None, ...] | None:
        """Return the only row of a query that needs no data files; otherwise None."""
        states = [resolved.state for resolved in self.resolved.values()]
        if not self.read.parsed.is_prunable or len(self.read.table_refs) != 1 or len(states) != 1 or states[0] is None:
            return None
        return compute_from_manifests(self.read.parsed.tree, states[0], constants)

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {id(table): place for place, table in self.read.parsed.requested.items()}

    def _columns_of(self, table: exp.Table) -> TypedColumns | None:
        resolved = self.resolved.get(self._positions.get(id(table), -1))
        if resolved is None:
            return None
        if isinstance(resolved.value, ViewEntry):
            return self.resolve_view(resolved).columns
        return None if resolved.state is None else [(one.name, one.type) for one in resolved.state.schema.columns]


_CACHED_TEXT_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """The rows of a query, the tables that it reads, and its dotted names."""

    frame: Frame
    scans: tuple[QueryScan, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class QueryBinder:
    """Binds the names in the queries of one statement to tables and views.

    All tables are read from one catalog version, except those with an AS OF clause.
    """

    engine: SqlEngine
    resolver: NameResolver
    arguments: Arguments = None
    prunes: bool = True
    start: int = 0
    """The start of the statement in its script, from which positional parameters are counted."""
    includes_session_views: bool = True
    """Whether temporary views take precedence; the query of a view does not see them."""
    above: tuple[str, ...] = ()
    """The views that contain this query, outermost first."""
    scans: list[QueryScan] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    _frames: dict[tuple[object, ...], Frame] = field(default_factory=dict)
    _views: dict[tuple[object, ...], ResolvedQuery] = field(default_factory=dict)
    _view_inputs: list[list[TextReplacement]] = field(default_factory=list)
    """References that keep the frames alive, so that their ids in cache keys stay unique."""
    _as_of_cache: dict[tuple[object, ...], int | str] = field(default_factory=dict)
    _session_views: dict[str, bool] = field(default_factory=dict)
    """Whether a name is a temporary view, for the names looked up so far."""

    @cached_property
    def statement_cache(self) -> StatementCache:
        """The cache of earlier statements on the lakehouse."""
        return statement_cache_of(self.engine)

    def query(self, piece: SqlFragment, whole: str, head: str = "") -> BoundQuery:
        """Return the rows of a query; `whole` is the full statement, `head` the text before the query."""
        query = self._resolve_query(piece, whole)
        constants = ConstantResolver(cache(self.time_zone), self._used_arguments(query.read.tokens, piece, whole))
        replacements = list(self._build_replacements(query, piece, whole, ScanRequirements(), constants))
        frame = self._run(query.read.tokens, piece, whole, replacements, head)
        names = tuple(dict.fromkeys(self.names))
        row = query.compute_from_manifests(constants) if self.prunes else None
        if row is None:
            return BoundQuery(frame, tuple(self.scans), names)
        return BoundQuery(frame if head else self.engine.create_constant_row(frame, row), (), names)

    def _run(
        self,
        tokens: list[SqlToken],
        piece: SqlFragment,
        whole: str,
        replacements: list[TextReplacement],
        head: str = "",
    ) -> Frame:
        """Return the rows of a query, with its replacements and those for names that only the engine recognizes."""
        for _ in range(len(tokens) + 1):
            pieces = [PositionedText(head, None), *apply_replacements(piece, replacements)]
            outcome = self.engine.run(pieces, self._used_arguments(tokens, piece, whole, replacements))
            if not isinstance(outcome, SqlErrorInfo):
                return outcome
            replacements.append(self._resolve_missing(outcome, tokens, piece, whole, replacements))
        raise AssertionError("each iteration resolves another name")

    def frame_at(self, table_ref: TableRef, whole: str, start: int) -> Frame | None:
        """Return the rows of a table reference in a part of the statement that begins at `start`."""
        piece = SqlFragment("", start - table_ref.start)
        resolved = self._resolve_table_ref(table_ref, piece, whole)
        return None if resolved is None else self._rows_at(resolved, table_ref, piece, whole)

    def frame_of(self, name: tuple[str, ...]) -> Frame | None:
        """Return the rows of a table or view by name, or None if it does not exist in the lakehouse."""
        resolved = self._resolve_name(TableRef(name, 0, 0, None, None))
        return None if resolved is None else self._rows(resolved, ScanRequirements())

    def _used_arguments(
        self, tokens: list[SqlToken], piece: SqlFragment, whole: str, replacements: Sequence[TextReplacement] = ()
    ) -> Arguments:
        """Return the arguments of the parameters in this fragment; None if it has none, such as a view's query.

        Positional arguments are reduced to those of this fragment.
        """
        if self.above or not any(token.text in (":", "?") for token in tokens):
            return None
        if self.arguments is None or isinstance(self.arguments, Mapping):
            return self.arguments
        replaced = [(splice.start, splice.end) for splice in replacements]
        requested = [
            token.start
            for token in tokens
            if token.text == "?" and not any(start <= token.start < end for start, end in replaced)
        ]
        everywhere = [token.start for token in tokenize(whole, self.start) if token.text == "?"]
        places = [piece.start + start for start in requested]
        numbers = [everywhere.index(place) for place in places if place in everywhere]
        if len(numbers) < len(requested):
            # DEFAULT was replaced in a list of values; the order is still that of the statement.
            before = sum(place < piece.start for place in everywhere)
            numbers = list(range(before, before + len(requested)))
        return [self.arguments[number] for number in numbers if number < len(self.arguments)]

    def _analyze(self, text: str) -> AnalyzedQuery:
        """Return the cached analysis of a query; long texts, such as lists of values, are not cached."""
        return self.statement_cache.texts.get_or_create(
            text if len(text) <= _CACHED_TEXT_MAX else None, lambda: analyze_query(text)
        )

    def _resolve_query(self, piece: SqlFragment, whole: str) -> ResolvedQuery:
        """Resolve the names of a query."""
        try:
            read = self._analyze(piece.text)
        except InvalidAsOfError as error:
            raise build_error_at(whole, piece.start + error.start, str(error)) from error
        unqualified = {table_ref.parts[0] for table_ref in read.table_refs if len(table_ref.parts) == 1}
        if unqualified and self.includes_session_views:
            self._load_session_views(unqualified)
        resolved = {table_ref.start: self._resolve_table_ref(table_ref, piece, whole) for table_ref in read.table_refs}
        return ResolvedQuery(
            read, {place: one for place, one in resolved.items() if one is not None}, self._resolve_view
        )

    def _build_replacements(
        self,
        query: ResolvedQuery,
        piece: SqlFragment,
        whole: str,
        above: ScanRequirements,
        constants: ConstantResolver,
    ) -> Iterator[TextReplacement]:
        """Yield the replacement of each table reference; `above` are the requirements of the query itself."""
        parsed, tokens, table_refs = query.read.parsed, query.read.tokens, query.read.table_refs
        aliases = assign_aliases(table_refs)
        ours: set[tuple[str, ...]] = set()
        requirements_at = query.requirements_by_table(above)
        for table_ref in table_refs:
            resolved = query.resolved.get(table_ref.start)
            if resolved is not None:
                requirements = requirements_at(table_ref) if self.prunes else ScanRequirements()
                ours.add(table_ref.parts)
                yield replace_table_name(
                    table_ref,
                    self._rows_at(resolved, table_ref, piece, whole, requirements, constants),
                    aliases[table_ref.parts],
                )
        for place, token in enumerate(tokens[:-1]):
            if token.word.lower() in TABLE_FUNCTIONS and tokens[place - 1].word in ("FROM", "JOIN") and place:
                yield self._replace_function(tokens, place, piece, whole)
        for parts, start, end in parsed.qualified:
            if parts[:2] in ours and aliases[parts[:2]] != quote_name(parts[1]):
                yield TextReplacement(start, end, aliases[parts[:2]])
            elif parts[:2] in ours:
                yield TextReplacement(start, end, quote_name(parts[1]))

    def _resolve_missing(
        self,
        refusal: SqlErrorInfo,
        tokens: list[SqlToken],
        piece: SqlFragment,
        whole: str,
        replacements: list[TextReplacement],
    ) -> TextReplacement:
        """Return the replacement for a name that only the engine recognized as a table; raise any other error."""
        start = None if refusal.start is None else refusal.start - piece.start
        place = next((number for number, token in enumerate(tokens) if token.start == start), None)
        if place is None or any(splice.start == start for splice in replacements):
            raise build_statement_error(self._suggest_column(refusal), whole)
        if refusal.condition == "TABLE_OR_VIEW_NOT_FOUND":
            parts, after = find_unresolved_name(refusal, tokens, place)
            table_ref = parse_table_ref(tokens, parts, place, after)
            resolved = self._resolve_table_ref(table_ref, piece, whole)
            if resolved is None:
                hint = suggest_table_name(self.resolver.catalog, self.resolver.namespace, parts)
                message = f"table or view {join_name(*parts)} does not exist{hint}"
                raise NotFoundError(format_with_caret(whole, refusal.start or 0, message))
            return replace_table_name(
                table_ref, self._rows_at(resolved, table_ref, piece, whole), quote_name(parts[-1])
            )
        if refusal.condition == "UNRESOLVABLE_TABLE_VALUED_FUNCTION" and tokens[place].word.lower() in TABLE_FUNCTIONS:
            return self._replace_function(tokens, place, piece, whole)
        raise build_statement_error(self._suggest_column(refusal), whole)

    def _suggest_column(self, refusal: SqlErrorInfo) -> SqlErrorInfo:
        """Return the error with the most similar column of the tables; the engine knows only the columns it reads."""
        if not refusal.condition.startswith("UNRESOLVED_COLUMN"):
            return refusal
        unknown = refusal.parameters.get("objectName", "").rpartition(".")[2].strip("`")
        columns = [column.name for scan in self.scans for column in scan.state.schema.columns]
        closest = find_closest_name(unknown, columns)
        if closest is None:
            return refusal
        parameters = {**refusal.parameters, "proposal": f"`{closest}`"}
        return replace(refusal, condition="UNRESOLVED_COLUMN.WITH_SUGGESTION", parameters=parameters)

    def _replace_function(self, tokens: list[SqlToken], place: int, piece: SqlFragment, whole: str) -> TextReplacement:
        with locate_errors_at(whole, piece.start + tokens[place].start):
            call = parse_table_function(piece.text, tokens, place)
            rows = run_table_function(
                call,
                self.resolver,
                self.engine,
                lambda number: locate_errors_at(whole, piece.start + call.places[number]),
            )
            return TextReplacement(call.start, call.end, rows)

    def _resolve_table_ref(self, table_ref: TableRef, piece: SqlFragment, whole: str) -> ResolvedName | None:
        with locate_errors_at(whole, piece.start + table_ref.start):
            if table_ref.computed is not None:
                table_ref = replace(table_ref, as_of=self._evaluate_as_of(table_ref.computed, piece, whole))
            return self._resolve_name(table_ref)

    def _rows_at(
        self,
        resolved: ResolvedName,
        table_ref: TableRef,
        piece: SqlFragment,
        whole: str,
        requirements: ScanRequirements | None = None,
        constants: ConstantResolver | None = None,
    ) -> Frame:
        with locate_errors_at(whole, piece.start + table_ref.start):
            return self._rows(resolved, requirements or ScanRequirements(), constants)

    def resolve_as_of(self, as_of: AsOfExpression, whole: str) -> int | str:
        """Evaluate an AS OF expression at a position of the whole statement."""
        return self._evaluate_as_of(as_of, SqlFragment("", 0), whole)

    def _evaluate_as_of(self, as_of: AsOfExpression, piece: SqlFragment, whole: str) -> int | str:
        """Return the value of the AS OF expression; equal texts have equal values within a statement."""
        key = (as_of.kind, as_of.text) if "?" not in as_of.text else (as_of, piece.start)
        if key not in self._as_of_cache:
            tokens = tokenize(whole[: piece.start + as_of.end], piece.start + as_of.start)
            has_parameters = any(mark in as_of.text for mark in ":?")
            arguments = self._used_arguments(tokens, SqlFragment("", 0), whole) if has_parameters else None
            self._as_of_cache[key] = evaluate_as_of(as_of, self.engine, arguments)
        return self._as_of_cache[key]

    def _resolve_name(self, table_ref: TableRef) -> ResolvedName | None:
        """Resolve a name; None if it is not in the lakehouse."""
        given = expand_canonical(table_ref.parts)
        if is_canonical(given):
            return self._resolve_canonical(table_ref)
        parts, version = split_version(given)
        namespace, name = self._split_name(parts)
        if namespace is None or (len(parts) == 1 and self._is_session_view(name)):
            return None
        catalog = self.resolver.catalog if table_ref.as_of is None else self.resolver.at(table_ref.as_of)
        try:
            check_name(namespace)
            check_name(name)
        except InvalidInputError:
            # A path, as in parquet.`/some/folder`, which the engine resolves.
            return None
        full_name = join_name(namespace, name)
        reading, locator, view_locator = catalog._reading(), TableLocator(namespace, name), ViewLocator(namespace, name)
        table, view = reading.get_many([locator, view_locator])
        if table is None and view is None:
            locator, table = locate_table(reading, locator)
            view_locator, view = locate_view(reading, view_locator)
        if isinstance(table, TableEntry):
            self.names.append(full_name)
            target = TableTarget(locator, version)
            state = self._state(catalog, target, table)
            return ResolvedName(catalog, locator, table, target, table_ref.as_of, state)
        if isinstance(view, ViewEntry) and version is None:
            self.names.append(full_name)
            return ResolvedName(catalog, view_locator, view, as_of=table_ref.as_of)
        if table_ref.as_of is not None and any(
            locate_namespace(one, NamespaceLocator(namespace))[1] for one in (reading, self.resolver.catalog._reading())
        ):
            raise NotFoundError(f"table or view {full_name} does not exist as of {table_ref.as_of!r}")
        return None

    def _resolve_canonical(self, table_ref: TableRef) -> ResolvedName:
        """Resolve a canonical string in backticks; no name contains a bar."""
        catalog = self.resolver.catalog if table_ref.as_of is None else self.resolver.at(table_ref.as_of)
        table = catalog.table(table_ref.parts[0])
        self.names.append(str(table.locator))
        state = self._state(catalog, table.target, table.value)
        return ResolvedName(catalog, table.locator, table.value, table.target, table_ref.as_of, state)

    def _state(self, catalog: Catalog, target: TableTarget, value: TableEntry) -> TableState | None:
        """Return the cached state of a managed table; None if it is external or has no schema."""
        if value.table_type is not TableType.MANAGED:
            if value.table_type is not TableType.EXTERNAL:
                raise InvalidInputError(f"table {target} is in another catalog and cannot be read here; read it there")
            return None
        version, reading = _version_of(catalog), catalog._reading()

        def load_state() -> TableState | None:
            if open_table(reading, target).version.schema is None:
                return None
            return load_table_state(reading, target, is_recorded=False)

        return self.statement_cache.states.get_or_create(None if version is None else (version, target), load_state)

    def _rows(
        self, resolved: ResolvedName, requirements: ScanRequirements, constants: ConstantResolver | None = None
    ) -> Frame:
        """Return the rows of a table or view, at least the required ones."""
        value = resolved.value
        if is_cached(self.engine, join_name(resolved.locator.namespace, resolved.locator.name)):
            # Spark uses cached rows only if the same columns are read.
            requirements = replace(requirements, columns=require_all_columns)
        if isinstance(value, ViewEntry):
            return self._view_rows(resolved, requirements, constants or ConstantResolver(self.time_zone))
        assert resolved.target is not None
        if resolved.state is None and value.table_type is TableType.MANAGED:
            table = resolved.catalog.table(resolved.target.locator)._bind(resolved.target)
            rows = table.to_arrow()
            if not rows.num_columns:
                raise InvalidInputError(
                    f"{table} has no schema and no files, so it has no columns; add files to it first"
                )
            return self.engine.create_frame_of_arrow(rows)
        if resolved.state is None:
            return self.engine.read_external_files(value.table_format, str(value.location), value.format_properties)
        requested = (
            build_table_predicate(requirements.rows, resolved.state.schema, constants)
            if constants is not None
            else None
        )
        record_rows_read(resolved.catalog._reading(), resolved.target, requested)
        # Spark has no nanosecond timestamps, and reads tables with them only for their other columns.
        is_readable = not any(has_nanoseconds(one.type) for one in resolved.state.schema.columns)
        is_pruned_by_engine = (
            self.engine.prunes_columns and is_readable and not self._has_foreign_files(resolved, resolved.state)
        )
        columns = None if is_pruned_by_engine else select_read_columns(resolved.state.schema, requirements.columns())
        return self._table_rows(resolved, QueryScan(resolved.state.name, resolved.state, requested, columns))

    def _has_foreign_files(self, resolved: ResolvedName, state: TableState) -> bool:
        """Return whether a table has files of other programs, which workers read."""
        version = _version_of(resolved.catalog)
        return self.statement_cache.foreign.get_or_create(
            None if version is None else (version, resolved.target), lambda: has_foreign_files(state)
        )

    def _table_rows(self, resolved: ResolvedName, scan: QueryScan) -> Frame:
        key = (resolved.target, resolved.as_of, scan.predicate, scan.columns)
        if key not in self._frames:
            frames, version = self.statement_cache.frames, _version_of(resolved.catalog)

            def read_frame() -> Frame:
                files = plan_pruned_scan(scan.state, scan.predicate)
                needed = scan.predicate if self.engine.filters_scans else None
                return frames.get_or_create(
                    (frame_cache_key_of(scan.state, files), scan.columns, needed),
                    lambda: self.engine.read_files(scan.state, files.plan, files.predicate, scan.columns, needed),
                )

            version_key = None if version is None else (version, resolved.target, scan.predicate, scan.columns)
            self._frames[key] = frames.get_or_create(version_key, read_frame)
            self.scans.append(scan)
        return self._frames[key]

    def _resolve_view(self, resolved: ResolvedName) -> ResolvedQuery:
        """Resolve the names in a view's query; each view is resolved once."""
        key = (resolved.locator, resolved.as_of)
        inner = self._create_view_binder(resolved)
        if key not in self._views:
            with annotate_view_errors(str(resolved.locator)):
                self._views[key] = inner._resolve_query(_view_fragment(resolved), _view_fragment(resolved).text)
        return self._views[key]

    def _create_view_binder(self, resolved: ResolvedName) -> "QueryBinder":
        """Return the binder for the names in a view's query."""
        namespace = resolved.value.properties.get(VIEW_NAMESPACE, resolved.locator.namespace)
        is_now = resolved.as_of is None
        return replace(
            self,
            resolver=replace(self.resolver, catalog=resolved.catalog, namespace=namespace),
            includes_session_views=False,
            above=enter_view(self.above, str(resolved.locator)),
            names=[],
            _frames=self._frames if is_now else {},
            _views=self._views if is_now else {},
        )

    def _view_rows(self, resolved: ResolvedName, requirements: ScanRequirements, constants: ConstantResolver) -> Frame:
        """Return the rows of a view, computed once per set of input rows."""
        inner, query, piece = self._create_view_binder(resolved), self._resolve_view(resolved), _view_fragment(resolved)
        with annotate_view_errors(str(resolved.locator)):
            replacements = list(inner._build_replacements(query, piece, piece.text, requirements, constants))
            key = (resolved.locator, resolved.as_of, *(_identity(splice.instead) for splice in replacements))
            if key not in self._frames:
                self._frames[key] = inner._run(query.read.tokens, piece, piece.text, replacements)
                self._view_inputs.append(replacements)
        return self._frames[key]

    def _split_name(self, parts: tuple[str, ...]) -> tuple[str | None, str]:
        if len(parts) == 1:
            return self.resolver.namespace, parts[0]
        return (parts[0], parts[1]) if len(parts) == 2 else (None, parts[-1])

    def _is_session_view(self, name: str) -> bool:
        if self.includes_session_views and name not in self._session_views:
            self._load_session_views([name])
        return self.includes_session_views and self._session_views[name]

    def _load_session_views(self, names: Collection[str]) -> None:
        """Find the names of temporary views, which take precedence."""
        temporary_views = self.engine.list_temporary_views(names)
        self._session_views.update((name, name in temporary_views) for name in names)

    def time_zone(self) -> str:
        """Return the session time zone, which applies to times without a zone."""
        return self.engine.time_zone()


def _view_fragment(view: ResolvedName) -> SqlFragment:
    """Return the text of a view."""
    assert isinstance(view.value, ViewEntry)
    return SqlFragment(view.value.sql, 0)


def _identity(instead: Frame | str) -> object:
    return instead if isinstance(instead, str) else id(instead)


def _version_of(catalog: Catalog) -> int | None:
    """Return the fixed version of a catalog, or None if it may still change, as what a principal may read does."""
    if not isinstance(catalog, Snapshot) or isinstance(catalog.snapshot, AuthorizedSnapshot):
        return None
    return catalog.version


def evaluate_constant(piece: SqlFragment, binder: QueryBinder, whole: str) -> object:
    """Return the value of an expression without columns, evaluated by the engine."""
    frame = binder.query(SqlFragment(f"SELECT {piece.text}", piece.start - len("SELECT ")), whole).frame
    return binder.engine.collect_rows(frame)[0][0]


def evaluate_text(piece: SqlFragment, binder: QueryBinder, whole: str) -> str:
    """Return the string value of an expression."""
    value = evaluate_constant(piece, binder, whole)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{piece.text} is {value!r}; expected a string")
    return value


def evaluate_immediate_arguments(statement: ExecuteImmediate, binder: QueryBinder, whole: str) -> Arguments:
    """Return the parameter values of EXECUTE IMMEDIATE."""
    values = [(name, evaluate_constant(piece, binder, whole)) for name, piece in statement.arguments]
    if values and values[0][0] is not None:
        return {str(name): value for name, value in values}
    return [value for _, value in values] or None


def set_variables(into: SqlFragment, frame: Frame, engine: SqlEngine, whole: str) -> None:
    """Set session variables to the columns of the only row; without a row, to null."""
    # Distinct names, because the result may have two columns with the same name.
    numbered = engine.rename_columns(frame, [f"column {number}" for number in range(len(frame.columns))])
    pieces = [
        PositionedText("SET VAR (", None),
        PositionedText(into.text, into.start),
        PositionedText(") = (SELECT * FROM ", None),
    ]
    outcome = engine.run([*pieces, numbered, PositionedText(")", None)])
    if isinstance(outcome, SqlErrorInfo):
        raise build_statement_error(outcome, whole)
