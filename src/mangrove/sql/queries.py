"""Putting the lakehouse's tables and views in the place of their names in a query, and having Spark run it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

from mangrove.errors import InvalidInputError, MangroveError, NotFoundError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.past import PastLakehouse
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.names import check_name, joined_name, quoted_name
from mangrove.model.objects import Table, TableType, View
from mangrove.spark.engine import SparkEngine
from mangrove.spark.statements import Arguments, Frame, Refused, Text, read_elsewhere, run_text
from mangrove.sql.computed_moments import ComputedMoment, evaluated
from mangrove.sql.cursor import Piece
from mangrove.sql.functions import FUNCTIONS, FunctionCall, call_at, function_rows
from mangrove.sql.kept import Kept, kept_of, what_rows_come_from
from mangrove.sql.mentions import Mention, ReadQuery, after_mention, read_query
from mangrove.sql.places import located, pointed
from mangrove.sql.pruning import certain_predicate
from mangrove.sql.refusals import raised
from mangrove.sql.sight import Sight
from mangrove.sql.suggestions import did_you_mean
from mangrove.sql.tokens import Token, name_chain, tokenize
from mangrove.tables.predicates import Predicate
from mangrove.tables.scan_plan import ScanPlan, plan_scan
from mangrove.tables.table_state import TableState

__all__ = ["VIEW_NAMESPACE", "BoundQuery", "QueryBinder", "TableScan"]

VIEW_NAMESPACE: Final = "sql.namespace"
"""The property of a view that says where its names without a namespace are looked up."""
_VIEWS_DEEP_MAX: Final = 50
_KEPT_TEXT_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class TableScan:
    """A table that a query reads, and what is certain about the rows that it needs."""

    name: str
    state: TableState
    predicate: Predicate | None

    def plan(self) -> ScanPlan:
        """Return which files are read, and why others are skipped."""
        return plan_scan(self.state, self.predicate)


@dataclass(frozen=True, slots=True)
class BoundQuery:
    """The rows of a query, the tables that it reads, and the dotted names that stand in it."""

    frame: Frame
    scans: tuple[TableScan, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class QueryBinder:
    """Where names are looked up for one statement.

    All tables are read from one catalog, so that a query sees one version of the
    lakehouse, unless it says another moment for a table.
    """

    engine: SparkEngine
    sight: Sight
    arguments: Arguments = None
    prunes: bool = True
    start: int = 0
    """Where the statement begins in its script: parameters without names are counted from there."""
    sees_session: bool = True
    """Whether Spark's temporary views come first; a view of the lakehouse does not see them."""
    above: tuple[str, ...] = ()
    """The views inside which this query stands."""
    scans: list[TableScan] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    _frames: dict[tuple[object, ...], Frame] = field(default_factory=dict)
    _moments: dict[tuple[object, ...], int | str] = field(default_factory=dict)
    _of_session: dict[str, bool] = field(default_factory=dict)
    """Which names are those of temporary views, as far as they were looked up."""

    @cached_property
    def kept(self) -> Kept:
        """What earlier statements on the lakehouse made."""
        return kept_of(self.engine)

    def query(self, piece: Piece, whole: str, head: str = "") -> BoundQuery:
        """Return the rows of a query; `whole` is the statement of which it is a piece, `head` what goes before it."""
        read = self._read(piece.text)
        tokens = read.tokens
        splices = list(self._splices(read, piece, whole))
        for _ in range(len(tokens) + 1):
            pieces = [Text(head, None), *_spliced(piece, splices)]
            outcome = run_text(self.kept.names, pieces, self._used_arguments(tokens, piece, whole, splices))
            if not isinstance(outcome, Refused):
                return BoundQuery(outcome, tuple(self.scans), tuple(dict.fromkeys(self.names)))
            splices.append(self._missed(outcome, tokens, piece, whole, splices))
        raise AssertionError("each round finds a name at another place")

    def frame_at(self, mention: Mention, whole: str, start: int) -> Frame | None:
        """Return the rows of what is named in a part of the statement that begins at `start`."""
        return self._located(mention, Piece("", start - mention.start), whole, lambda _: None)

    def frame_of(self, name: tuple[str, ...], moment: int | str | None = None) -> Frame | None:
        """Return the rows of a table or view by its name, None if the lakehouse has none of that name."""
        return self._frame(Mention(name, 0, 0, moment, None), lambda _: None)

    def _used_arguments(
        self, tokens: list[Token], piece: Piece, whole: str, splices: Sequence["_Splice"] = ()
    ) -> Arguments:
        """Return the arguments, but none to a text without parameters, such as that of a view.

        Those that go by their places are only those of this piece of the statement.
        """
        if self.above or not any(token.text in (":", "?") for token in tokens):
            return None
        if self.arguments is None or isinstance(self.arguments, Mapping):
            return self.arguments
        gone = [(splice.start, splice.end) for splice in splices]
        asked = [
            token.start
            for token in tokens
            if token.text == "?" and not any(start <= token.start < end for start, end in gone)
        ]
        everywhere = [token.start for token in tokenize(whole, self.start) if token.text == "?"]
        places = [piece.start + start for start in asked]
        numbers = [everywhere.index(place) for place in places if place in everywhere]
        if len(numbers) < len(asked):
            # Defaults were written into a list of values; the order is still that of the statement.
            before = sum(place < piece.start for place in everywhere)
            numbers = list(range(before, before + len(asked)))
        return [self.arguments[number] for number in numbers if number < len(self.arguments)]

    def _read(self, text: str) -> ReadQuery:
        """Return the query taken apart, as it was for an earlier statement; rows written out in a text are not kept."""
        return self.kept.texts.got(text if len(text) <= _KEPT_TEXT_MAX else None, lambda: read_query(text))

    def _splices(self, read: ReadQuery, piece: Piece, whole: str) -> Iterator["_Splice"]:
        parsed, tokens, found = read.parsed, read.tokens, read.mentions
        bare = {mention.parts[0] for mention in found if len(mention.parts) == 1}
        if bare and self.sees_session:
            self._look_into_session(bare)
        aliases = _aliases(found)
        ours: set[tuple[str, ...]] = set()
        for mention in found:

            def predicate_on(state: TableState, start: int = mention.start) -> Predicate | None:
                if not (self.prunes and parsed.is_prunable):
                    return None
                return certain_predicate(parsed.tables[start], state.schema, self.time_zone)

            frame = self._located(mention, piece, whole, predicate_on)
            if frame is not None:
                ours.add(mention.parts)
                yield from _named(mention, frame, aliases[mention.parts])
        for place, token in enumerate(tokens[:-1]):
            if token.word.lower() in FUNCTIONS and tokens[place - 1].word in ("FROM", "JOIN") and place:
                yield self._function(call_at(piece.text, tokens, place), piece, whole)
        for parts, start, end in parsed.qualified:
            if parts[:2] in ours and aliases[parts[:2]] != quoted_name(parts[1]):
                yield _Splice(start, end, aliases[parts[:2]])
            elif parts[:2] in ours:
                yield _Splice(start, end, quoted_name(parts[1]))

    def _missed(
        self, refusal: Refused, tokens: list[Token], piece: Piece, whole: str, splices: list["_Splice"]
    ) -> "_Splice":
        """Return the splice for a name that only Spark recognised as a table's; raise any other refusal."""
        start = None if refusal.start is None else refusal.start - piece.start
        place = next((number for number, token in enumerate(tokens) if token.start == start), None)
        if place is None or any(splice.start == start for splice in splices):
            raise raised(refusal, whole)
        if refusal.condition == "TABLE_OR_VIEW_NOT_FOUND":
            parts, after = _relation(refusal, tokens, place)
            mention = after_mention(tokens, parts, place, after)
            frame = self._located(mention, piece, whole, lambda _: None)
            if frame is None:
                hint = did_you_mean(self.sight.catalog, self.sight.namespace, parts)
                message = f"there is no table or view {joined_name(*parts)}{hint}"
                raise NotFoundError(pointed(whole, refusal.start or 0, message))
            alias = None if mention.alias_place is None else quoted_name(parts[-1])
            return _Splice(mention.start, mention.end, frame, alias, mention.alias_place)
        if refusal.condition == "UNRESOLVABLE_TABLE_VALUED_FUNCTION" and tokens[place].word.lower() in FUNCTIONS:
            return self._function(call_at(piece.text, tokens, place), piece, whole)
        raise raised(refusal, whole)

    def _function(self, call: FunctionCall, piece: Piece, whole: str) -> "_Splice":
        try:
            frame = function_rows(call, self.sight, self.engine)
        except MangroveError as error:
            raise located(error, whole, piece.start + call.start) from error
        return _Splice(call.start, call.end, frame)

    def _located(
        self, mention: Mention, piece: Piece, whole: str, predicate_on: Callable[[TableState], Predicate | None]
    ) -> Frame | None:
        try:
            if mention.computed is not None:
                mention = replace(mention, moment=self._computed(mention.computed, piece, whole))
            return self._frame(mention, predicate_on)
        except MangroveError as error:
            raise located(error, whole, piece.start + mention.start) from error

    def moment_at(self, moment: ComputedMoment, whole: str) -> int | str:
        """Return what a moment is whose place is one in the whole statement."""
        return self._computed(moment, Piece("", 0), whole)

    def _computed(self, moment: ComputedMoment, piece: Piece, whole: str) -> int | str:
        """Return the moment; the same words mean the same moment in all of the statement."""
        key = (moment.kind, moment.text) if "?" not in moment.text else (moment, piece.start)
        if key not in self._moments:
            tokens = tokenize(whole[: piece.start + moment.end], piece.start + moment.start)
            is_given = any(mark in moment.text for mark in ":?")
            arguments = self._used_arguments(tokens, Piece("", 0), whole) if is_given else None
            self._moments[key] = evaluated(
                moment, lambda text: run_text(self.kept.names, [Text(text, None)], arguments)
            )
        return self._moments[key]

    def _frame(self, mention: Mention, predicate_on: Callable[[TableState], Predicate | None]) -> Frame | None:
        namespace, name = self._resolved(mention.parts)
        if namespace is None or (len(mention.parts) == 1 and self._is_of_session(name)):
            return None
        catalog = self.sight.catalog if mention.moment is None else self.sight.at(mention.moment)
        try:
            check_name(namespace)
            check_name(name)
        except InvalidInputError:
            # A path, as in parquet.`/some/folder`, which is Spark's business.
            return None
        table, view = catalog.reading().get_many([TableLocator(namespace, name), ViewLocator(namespace, name)])
        found = joined_name(namespace, name)
        if isinstance(table, Table):
            self.names.append(found)
            return self._table_frame(catalog, TableLocator(namespace, name), table, mention.moment, predicate_on)
        if isinstance(view, View):
            self.names.append(found)
            return self._view_frame(catalog, ViewLocator(namespace, name), view, mention.moment)
        if mention.moment is not None and catalog.reading().get(NamespaceLocator(namespace)) is not None:
            raise NotFoundError(f"there is no table or view {found} at {mention.moment!r}")
        return None

    def _table_frame(
        self,
        catalog: Catalog,
        locator: TableLocator,
        value: Table,
        moment: int | str | None,
        predicate_on: Callable[[TableState], Predicate | None],
    ) -> Frame:
        handle = catalog.table(locator)
        if value.table_type is not TableType.MANAGED:
            if value.table_type is not TableType.EXTERNAL:
                raise InvalidInputError(f"{locator} lies in another catalog: read it there")
            return read_elsewhere(self.engine.session, value.table_format, str(value.location), value.format_properties)
        version = catalog.version if isinstance(catalog, PastLakehouse) else None
        state = self.kept.states.got(None if version is None else (version, locator), handle.state)
        predicate = predicate_on(state)
        key = (locator, moment, predicate)
        if key not in self._frames:
            frames = self.kept.frames

            def made() -> Frame:
                return frames.got(
                    what_rows_come_from(state, predicate), lambda: self.engine.read(state, None, predicate)
                )

            self._frames[key] = frames.got(None if version is None else (version, locator, predicate), made)
            self.scans.append(TableScan(str(locator), state, predicate))
        return self._frames[key]

    def _view_frame(self, catalog: Catalog, locator: ViewLocator, value: View, moment: int | str | None) -> Frame:
        name = str(locator)
        if name in self.above or len(self.above) >= _VIEWS_DEEP_MAX:
            way = " reads ".join((*self.above, name))
            raise InvalidInputError(f"the view {name} reads itself: {way}")
        key = (locator, moment)
        if key not in self._frames:
            namespace = value.properties.get(VIEW_NAMESPACE, locator.namespace)
            inner = replace(
                self,
                sight=replace(self.sight, catalog=catalog, namespace=namespace),
                sees_session=False,
                above=(*self.above, name),
                names=[],
                _frames=self._frames if moment is None else {},
            )
            try:
                self._frames[key] = inner.query(Piece(value.sql, 0), value.sql).frame
            except MangroveError as error:
                # Its first line says all; a caret in the view's text would stand below the user's.
                raise type(error)(f"the view {name} cannot be read: {str(error).splitlines()[0]}") from error
        return self._frames[key]

    def _resolved(self, parts: tuple[str, ...]) -> tuple[str | None, str]:
        if len(parts) == 1:
            return self.sight.namespace, parts[0]
        return (parts[0], parts[1]) if len(parts) == 2 else (None, parts[-1])

    def _is_of_session(self, name: str) -> bool:
        if self.sees_session and name not in self._of_session:
            self._look_into_session([name])
        return self.sees_session and self._of_session[name]

    def _look_into_session(self, names: Collection[str]) -> None:
        """Ask which names are those of temporary views, which come first."""
        found = self.kept.names.temporary_views(names)
        self._of_session.update((name, name in found) for name in names)

    def time_zone(self) -> str:
        """Return where the session is, which says what a time without a zone means."""
        return str(self.engine.session.conf.get("spark.sql.session.timeZone"))


@dataclass(frozen=True, slots=True)
class _Splice:
    """What stands in the place of a part of the query."""

    start: int
    end: int
    instead: Frame | str
    alias: str | None = None
    alias_place: int | None = None


def _named(mention: Mention, frame: Frame, alias: str) -> Iterator[_Splice]:
    yield _Splice(
        mention.start, mention.end, frame, None if mention.alias_place is None else alias, mention.alias_place
    )


def _spliced(piece: Piece, splices: list[_Splice]) -> Iterator[Text | Frame]:
    """Yield the query with the splices in it; what is left of the text keeps its place in the statement."""
    cuts: list[tuple[int, int, Frame | str]] = []
    for splice in splices:
        cuts.append((splice.start, splice.end, splice.instead))
        if splice.alias is not None and splice.alias_place is not None:
            cuts.append((splice.alias_place, splice.alias_place, f" AS {splice.alias}"))
    done = 0
    for start, end, instead in sorted(cuts, key=lambda cut: (cut[0], cut[1])):
        yield Text(piece.text[done:start], piece.start + done)
        yield Text(instead, None) if isinstance(instead, str) else instead
        done = end
    yield Text(piece.text[done:], piece.start + done)


def _aliases(found: Sequence[Mention]) -> dict[tuple[str, ...], str]:
    """Return how each table is called in the query: by its own name, and in full where two have the same."""
    bare = {mention.parts for mention in found if mention.alias_place is not None}
    last = [parts[-1].casefold() for parts in bare]
    return {
        mention.parts: quoted_name(mention.parts[-1])
        if last.count(mention.parts[-1].casefold()) <= 1
        else f"`{'.'.join(mention.parts).replace('`', '``')}`"
        for mention in found
    }


def _relation(refusal: Refused, tokens: list[Token], place: int) -> tuple[tuple[str, ...], int]:
    """Return the parts of the name that Spark did not find, and the place after it; it may come from a parameter."""
    named, _ = name_chain([*tokenize(refusal.parameters.get("relationName", "``"))], 0)
    parts, after = name_chain(tokens, place)
    if parts == named:
        return parts, after
    end = refusal.end
    last = next((number for number, token in enumerate(tokens) if end is not None and token.end >= end), place)
    return named, last + 1
