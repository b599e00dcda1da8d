"""Putting the lakehouse's tables and views in the place of their names in a query, and having Spark run it."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Final

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.past import PastLakehouse
from mangrove.model.locators import NamespaceLocator, TableLocator, ViewLocator
from mangrove.model.names import check_name, joined_name, quoted_name
from mangrove.model.objects import Table, TableType, View
from mangrove.spark.engine import SparkEngine
from mangrove.spark.statements import Arguments, Frame, Refused, Text, read_elsewhere, run_text
from mangrove.sql.caching import is_cached
from mangrove.sql.computed_moments import ComputedMoment, evaluated
from mangrove.sql.constants import Constants
from mangrove.sql.cursor import Piece
from mangrove.sql.functions import FUNCTIONS, call_at, function_rows
from mangrove.sql.kept import Kept, files_read, has_foreign_files, kept_of, what_rows_come_from
from mangrove.sql.lookups import Found, Lookups, Wanted
from mangrove.sql.mentions import Mention, ReadQuery, RefusedMomentError, after_mention, read_query
from mangrove.sql.needed_columns import all_names, read_columns
from mangrove.sql.places import error_at, placed, pointed
from mangrove.sql.pruning import certain_predicate
from mangrove.sql.refusals import raised
from mangrove.sql.sight import Sight
from mangrove.sql.splices import Splice, aliases, named, refused_name, spliced
from mangrove.sql.suggestions import did_you_mean
from mangrove.sql.table_scans import TableScan
from mangrove.sql.tokens import Token, tokenize
from mangrove.sql.views_in_views import one_deeper, reading_view
from mangrove.tables.table_state import TableState
from mangrove.transaction.views import VIEW_NAMESPACE

__all__ = ["BoundQuery", "QueryBinder"]

_KEPT_TEXT_MAX: Final = 20_000


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
    _views: dict[tuple[object, ...], Lookups] = field(default_factory=dict)
    _made_of: list[list[Splice]] = field(default_factory=list)
    """Kept, so that no other frame has the id of one that a view was made of."""
    _moments: dict[tuple[object, ...], int | str] = field(default_factory=dict)
    _of_session: dict[str, bool] = field(default_factory=dict)
    """Which names are those of temporary views, as far as they were looked up."""

    @cached_property
    def kept(self) -> Kept:
        """What earlier statements on the lakehouse made."""
        return kept_of(self.engine)

    def query(self, piece: Piece, whole: str, head: str = "") -> BoundQuery:
        """Return the rows of a query; `whole` is the statement of which it is a piece, `head` what goes before it."""
        looked_up = self._looked_up(piece, whole)
        constants = Constants(cache(self.time_zone), self._used_arguments(looked_up.read.tokens, piece, whole))
        splices = list(self._splices(looked_up, piece, whole, Wanted(), constants))
        frame = self._run(looked_up.read.tokens, piece, whole, splices, head)
        return BoundQuery(frame, tuple(self.scans), tuple(dict.fromkeys(self.names)))

    def _run(self, tokens: list[Token], piece: Piece, whole: str, splices: list[Splice], head: str = "") -> Frame:
        """Return the rows of a query, with the splices in it and those for names that only Spark recognises."""
        for _ in range(len(tokens) + 1):
            pieces = [Text(head, None), *spliced(piece, splices)]
            outcome = run_text(self.kept.names, pieces, self._used_arguments(tokens, piece, whole, splices))
            if not isinstance(outcome, Refused):
                return outcome
            splices.append(self._missed(outcome, tokens, piece, whole, splices))
        raise AssertionError("each round finds a name at another place")

    def frame_at(self, mention: Mention, whole: str, start: int) -> Frame | None:
        """Return the rows of what is named in a part of the statement that begins at `start`."""
        piece = Piece("", start - mention.start)
        found = self._found_at(mention, piece, whole)
        return None if found is None else self._rows_at(found, mention, piece, whole)

    def frame_of(self, name: tuple[str, ...]) -> Frame | None:
        """Return the rows of a table or view by its name, None if the lakehouse has none of that name."""
        found = self._found(Mention(name, 0, 0, None, None))
        return None if found is None else self._rows(found, Wanted())

    def _used_arguments(
        self, tokens: list[Token], piece: Piece, whole: str, splices: Sequence[Splice] = ()
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

    def _looked_up(self, piece: Piece, whole: str) -> Lookups:
        """Return what the names of a query stand for."""
        try:
            read = self._read(piece.text)
        except RefusedMomentError as error:
            raise error_at(whole, piece.start + error.start, str(error)) from error
        bare = {mention.parts[0] for mention in read.mentions if len(mention.parts) == 1}
        if bare and self.sees_session:
            self._look_into_session(bare)
        found = {mention.start: self._found_at(mention, piece, whole) for mention in read.mentions}
        return Lookups(read, {place: one for place, one in found.items() if one is not None}, self._inside)

    def _splices(
        self, looked_up: Lookups, piece: Piece, whole: str, above: Wanted, constants: Constants
    ) -> Iterator[Splice]:
        """Yield what stands in the place of each name; `above` is what is needed of the query itself."""
        parsed, tokens, found = looked_up.read.parsed, looked_up.read.tokens, looked_up.read.mentions
        called = aliases(found)
        ours: set[tuple[str, ...]] = set()
        wanted_at = looked_up.wanted(above)
        for mention in found:
            thing = looked_up.found.get(mention.start)
            if thing is not None:
                wanted = wanted_at(mention) if self.prunes else Wanted()
                ours.add(mention.parts)
                yield named(
                    mention, self._rows_at(thing, mention, piece, whole, wanted, constants), called[mention.parts]
                )
        for place, token in enumerate(tokens[:-1]):
            if token.word.lower() in FUNCTIONS and tokens[place - 1].word in ("FROM", "JOIN") and place:
                yield self._function(tokens, place, piece, whole)
        for parts, start, end in parsed.qualified:
            if parts[:2] in ours and called[parts[:2]] != quoted_name(parts[1]):
                yield Splice(start, end, called[parts[:2]])
            elif parts[:2] in ours:
                yield Splice(start, end, quoted_name(parts[1]))

    def _missed(self, refusal: Refused, tokens: list[Token], piece: Piece, whole: str, splices: list[Splice]) -> Splice:
        """Return the splice for a name that only Spark recognised as a table's; raise any other refusal."""
        start = None if refusal.start is None else refusal.start - piece.start
        place = next((number for number, token in enumerate(tokens) if token.start == start), None)
        if place is None or any(splice.start == start for splice in splices):
            raise raised(refusal, whole)
        if refusal.condition == "TABLE_OR_VIEW_NOT_FOUND":
            parts, after = refused_name(refusal, tokens, place)
            mention = after_mention(tokens, parts, place, after)
            found = self._found_at(mention, piece, whole)
            if found is None:
                hint = did_you_mean(self.sight.catalog, self.sight.namespace, parts)
                message = f"there is no table or view {joined_name(*parts)}{hint}"
                raise NotFoundError(pointed(whole, refusal.start or 0, message))
            return named(mention, self._rows_at(found, mention, piece, whole), quoted_name(parts[-1]))
        if refusal.condition == "UNRESOLVABLE_TABLE_VALUED_FUNCTION" and tokens[place].word.lower() in FUNCTIONS:
            return self._function(tokens, place, piece, whole)
        raise raised(refusal, whole)

    def _function(self, tokens: list[Token], place: int, piece: Piece, whole: str) -> Splice:
        with placed(whole, piece.start + tokens[place].start):
            call = call_at(piece.text, tokens, place)
            rows = function_rows(
                call, self.sight, self.engine, lambda number: placed(whole, piece.start + call.places[number])
            )
            return Splice(call.start, call.end, rows)

    def _found_at(self, mention: Mention, piece: Piece, whole: str) -> Found | None:
        with placed(whole, piece.start + mention.start):
            if mention.computed is not None:
                mention = replace(mention, moment=self._computed(mention.computed, piece, whole))
            return self._found(mention)

    def _rows_at(
        self,
        found: Found,
        mention: Mention,
        piece: Piece,
        whole: str,
        wanted: Wanted | None = None,
        constants: Constants | None = None,
    ) -> Frame:
        with placed(whole, piece.start + mention.start):
            return self._rows(found, wanted or Wanted(), constants)

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

    def _found(self, mention: Mention) -> Found | None:
        """Return what a name stands for, None where it is none of the lakehouse's."""
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
            locator = TableLocator(namespace, name)
            return Found(catalog, locator, table, mention.moment, self._state(catalog, locator, table))
        if isinstance(view, View):
            self.names.append(found)
            return Found(catalog, ViewLocator(namespace, name), view, mention.moment)
        if mention.moment is not None and catalog.reading().get(NamespaceLocator(namespace)) is not None:
            raise NotFoundError(f"there is no table or view {found} at {mention.moment!r}")
        return None

    def _state(self, catalog: Catalog, locator: TableLocator, value: Table) -> TableState | None:
        """Return the state of a table whose files are ours, as it was for an earlier statement."""
        if value.table_type is not TableType.MANAGED:
            if value.table_type is not TableType.EXTERNAL:
                raise InvalidInputError(f"{locator} lies in another catalog: read it there")
            return None
        version = _version_of(catalog)
        return self.kept.states.got(None if version is None else (version, locator), catalog.table(locator).state)

    def _rows(self, found: Found, wanted: Wanted, constants: Constants | None = None) -> Frame:
        """Return the rows of a table or view, or at least what is wanted of them."""
        value = found.value
        if is_cached(self.engine, joined_name(found.locator.namespace, found.locator.name)):
            # Spark finds what it keeps only where the same columns are read.
            wanted = replace(wanted, columns=all_names)
        if isinstance(value, View):
            return self._view_rows(found, wanted, constants or Constants(self.time_zone))
        if found.state is None:
            return read_elsewhere(self.engine.session, value.table_format, str(value.location), value.format_properties)
        asked = certain_predicate(wanted.rows, found.state.schema, constants) if constants is not None else None
        # Spark's own reader finds out by itself which columns it needs.
        is_seen = not self.engine.reads_in_workers and not self._has_foreign_files(found, found.state)
        columns = None if is_seen else read_columns(found.state.schema, wanted.columns())
        return self._table_rows(found, TableScan(str(found.locator), found.state, asked, columns))

    def _has_foreign_files(self, found: Found, state: TableState) -> bool:
        """Return whether workers read files of a table because other programs wrote them."""
        version = _version_of(found.catalog)
        return self.kept.foreign.got(
            None if version is None else (version, found.locator), lambda: has_foreign_files(state)
        )

    def _table_rows(self, found: Found, scan: TableScan) -> Frame:
        key = (found.locator, found.moment, scan.predicate, scan.columns)
        if key not in self._frames:
            frames, version = self.kept.frames, _version_of(found.catalog)

            def made() -> Frame:
                files = files_read(scan.state, scan.predicate)
                return frames.got(
                    (what_rows_come_from(scan.state, files), scan.columns),
                    lambda: self.engine.read_files(scan.state, files.plan, files.predicate, scan.columns),
                )

            known = None if version is None else (version, found.locator, scan.predicate, scan.columns)
            self._frames[key] = frames.got(known, made)
            self.scans.append(scan)
        return self._frames[key]

    def _inside(self, found: Found) -> Lookups:
        """Return what the names in a view's query stand for; each view is looked into once."""
        key = (found.locator, found.moment)
        inner = self._within(found)
        if key not in self._views:
            with reading_view(str(found.locator)):
                self._views[key] = inner._looked_up(_whole(found), _whole(found).text)
        return self._views[key]

    def _within(self, found: Found) -> "QueryBinder":
        """Return what looks up the names in a view's query."""
        namespace = found.value.properties.get(VIEW_NAMESPACE, found.locator.namespace)
        is_now = found.moment is None
        return replace(
            self,
            sight=replace(self.sight, catalog=found.catalog, namespace=namespace),
            sees_session=False,
            above=one_deeper(self.above, str(found.locator)),
            names=[],
            _frames=self._frames if is_now else {},
            _views=self._views if is_now else {},
        )

    def _view_rows(self, found: Found, wanted: Wanted, constants: Constants) -> Frame:
        """Return the rows of a view, made once of the same rows of its tables."""
        inner, looked_up, piece = self._within(found), self._inside(found), _whole(found)
        with reading_view(str(found.locator)):
            splices = list(inner._splices(looked_up, piece, piece.text, wanted, constants))
            key = (found.locator, found.moment, *(_identity(splice.instead) for splice in splices))
            if key not in self._frames:
                self._frames[key] = inner._run(looked_up.read.tokens, piece, piece.text, splices)
                self._made_of.append(splices)
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


def _whole(view: Found) -> Piece:
    """Return the text of a view."""
    assert isinstance(view.value, View)
    return Piece(view.value.sql, 0)


def _identity(instead: Frame | str) -> object:
    return instead if isinstance(instead, str) else id(instead)


def _version_of(catalog: Catalog) -> int | None:
    """Return the version that a catalog is for good, None for one that may still change."""
    return catalog.version if isinstance(catalog, PastLakehouse) else None
