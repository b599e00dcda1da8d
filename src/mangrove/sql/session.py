"""A conversation in SQL: statements one after the other, in transactions or each by itself."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any, Final

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.handles import LakeView
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.new_tables import schema_of
from mangrove.lakehouse.past import PastLakehouse
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.model.schema import Schema
from mangrove.spark.engine import SparkEngine
from mangrove.spark.statements import (
    Arguments,
    Frame,
    create_temporary_view,
    drop_temporary_view,
    failed,
    quiet,
    renamed_columns,
    rows_frame,
    run_time_errors,
)
from mangrove.sql.answers import Answer, count_rows
from mangrove.sql.caching import cache_table
from mangrove.sql.calling import call
from mangrove.sql.cursor import Cursor, Piece, SqlName
from mangrove.sql.defining import define
from mangrove.sql.grammar import parse_statement
from mangrove.sql.grammar_queries import parse_query
from mangrove.sql.immediate import immediate_arguments, set_variables, text_of
from mangrove.sql.kept import kept_of
from mangrove.sql.places import error_at, line_of, located
from mangrove.sql.queries import BoundQuery, QueryBinder
from mangrove.sql.refusals import stopped
from mangrove.sql.results import Result
from mangrove.sql.row_changes import RowChange, change_rows, said
from mangrove.sql.row_statements import Query
from mangrove.sql.session_statements import Analyze, CacheTable, ExecuteImmediate
from mangrove.sql.session_transaction import SessionTransaction
from mangrove.sql.showing import describe, show
from mangrove.sql.sight import Sight, Source
from mangrove.sql.splitting import split_script
from mangrove.sql.statements import (
    AlterNamespace,
    AlterTable,
    AlterView,
    Begin,
    Call,
    Commit,
    CreateNamespace,
    CreateTable,
    CreateView,
    Describe,
    DropObject,
    Explain,
    Rollback,
    Savepoint,
    Show,
    Statement,
    TemporaryView,
    Use,
)
from mangrove.sql.suggestions import known_names
from mangrove.tables.row_counts import RowCounts

__all__ = ["SqlSession"]

_FIRST_NAMESPACE: Final = "default"
_NO_PLAN: Final = "Error occurred during query planning"
_DEFINITIONS: Final = (
    CreateNamespace,
    AlterNamespace,
    CreateTable,
    AlterTable,
    CreateView,
    AlterView,
    DropObject,
)


class SqlSession:
    """Statements on one lakehouse; used by one thread at a time.

    Outside of a transaction each statement commits by itself. Inside, a statement
    that fails leaves nothing behind, and the transaction goes on: it is the user's
    to commit or to roll back.
    """

    def __init__(self, lake: Lakehouse, *, transaction: LakeTransaction | None = None, prunes: bool = True) -> None:
        self.lake = lake
        self.namespace = _FIRST_NAMESPACE
        self._transaction = SessionTransaction(lake, transaction)
        self._prunes = prunes

    @property
    def in_transaction(self) -> bool:
        """Whether statements wait for a COMMIT."""
        return self._transaction.open is not None

    @property
    def isolation(self) -> str | None:
        """The isolation of the transaction that is open."""
        transaction = self._transaction.open
        return None if transaction is None else transaction.isolation.value

    @cached_property
    def engine(self) -> SparkEngine:
        """The engine on Spark, which starts with the first query."""
        engines = self.lake.engines
        engine = None if engines is None else engines.spark()
        if not isinstance(engine, SparkEngine):
            raise InvalidInputError("SQL needs Spark: open the lakehouse with mangrove.open or mangrove.create")
        return engine

    def run(self, text: str, arguments: Arguments = None) -> Result:
        """Run one statement; `arguments` are for its parameters, `:name` or `?`."""
        parts = split_script(text)
        if len(parts) != 1:
            raise InvalidInputError(
                f"{len(parts)} statements were given where one is expected: run several as a script"
            )
        return self._run(text, parts[0].text, parts[0].start, arguments)

    def script(
        self, text: str, arguments: Arguments = None, before_each: Callable[[], None] = lambda: None
    ) -> Iterator[Result]:
        """Run statements that are separated by semicolons, and yield each result; the first error ends it.

        `before_each` is called before each statement, and ends the script by raising an error.
        """
        for part in split_script(text):
            before_each()
            yield self._run(text, part.text, part.start, arguments)

    def frame(self, result: Result) -> Frame:
        """Return the rows of a result as Spark's, also where it is none of a query."""
        if result.frame is not None:
            return result.frame
        answer = result.answer or Answer("result string", ((result.message,),))
        return rows_frame(self.engine.session, answer.schema, answer.rows)

    def close(self) -> None:
        """Forget the transaction that is open."""
        self._transaction.close()

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of namespaces, tables and views that begin with a prefix, for those who type."""
        catalog = self._sight().catalog
        found = [*(namespace.name for namespace in catalog.namespaces()), *known_names(catalog)]
        return [name for name in found if name.startswith(prefix)]

    def _run(self, whole: str, text: str, start: int, arguments: Arguments) -> Result:
        # What comes before stays in front, so that every place is one in the whole script.
        source, place = Source(whole[: start + len(text)], start, arguments), start
        try:
            with quiet():
                statement = parse_statement(source.text, start, lambda piece: self._computed_text(piece, source))
                place = _main_place(statement, start)
                result = self._outcome(statement, source)
        except (InvalidInputError, NotFoundError, AlreadyExistsError) as error:
            raise located(error, source.text, place) from error
        except run_time_errors as error:
            raise located(stopped(failed(error)), source.text, place) from error
        return replace(result, line=line_of(whole, start))

    def _outcome(self, statement: Statement, source: Source) -> Result:
        match statement:
            case Begin() | Commit() | Rollback() | Savepoint():
                return self._transaction.control(statement)
            case Query():
                bound = self._bound(statement, source)
                return Result("query", frame=bound.frame, scans=bound.scans)
            case Explain():
                return self._explained(statement, source)
            case TemporaryView():
                frame = self._bound(statement.query, source).frame
                if statement.columns:
                    frame = renamed_columns(frame, statement.columns)
                create_temporary_view(
                    frame, statement.name.parts[-1], or_replace=statement.or_replace, is_global=statement.is_global
                )
                return Result("definition", f"temporary view {statement.name.parts[-1]} is there")
            case Use():
                return self._use(statement)
            case Show("exports"):
                made = tuple((one.name, one.version, one.location) for one in self.lake.exports())
                return Result("information", answer=Answer("name string, version bigint, location string", made))
            case Show():
                return Result("information", answer=show(statement, self._sight(), self._view_columns))
            case Describe():
                return Result("information", answer=describe(statement, self._sight(), self._view_columns))
            case DropObject("view", name) if self._dropped_from_session(name):
                return Result("definition", f"temporary view {name.parts[-1]} is dropped")
            case _ if isinstance(statement, _DEFINITIONS):
                return self._defined(statement, source)
            case CacheTable():
                return self._cached(statement, source)
            case Analyze(name):
                show(Show("columns", name), self._sight(), self._view_columns)
                return Result("information", "statistics come with each file as it is written: nothing was to be done")
            case ExecuteImmediate():
                return self._immediate(statement, source)
            case Call():
                if self.in_transaction:
                    raise InvalidInputError("procedures look after the whole lakehouse: COMMIT or ROLLBACK first")
                return Result("procedure", answer=call(statement, self.lake, self.namespace))
            case _:
                return self._rows_changed(statement, source)

    def _sight(self, catalog: Catalog | None = None) -> Sight:
        if catalog is None:
            # One version for the whole statement, whatever is committed meanwhile.
            catalog = self._transaction.open or PastLakehouse(self.lake.reading(), self.lake.clients, self.lake.engines)
        return Sight(
            catalog,
            self.lake.at,
            self.lake.history,
            self.namespace,
            lambda locator: self.lake.table(locator).history(),
        )

    def _binder(self, sight: Sight, source: Source) -> QueryBinder:
        return QueryBinder(self.engine, sight, source.arguments, prunes=self._prunes, start=source.start)

    def _bound(
        self,
        query: Query,
        source: Source,
        catalog: Catalog | None = None,
        head: str = "",
        above: tuple[str, ...] = (),
    ) -> BoundQuery:
        sight = self._sight(catalog)
        binder = replace(self._binder(sight, source), above=above)
        if query.at is not None:
            at = query.at if isinstance(query.at, int | str) else binder.moment_at(query.at, source.text)
            binder = replace(binder, sight=replace(sight, catalog=self.lake.at(at)))
        return binder.query(query.piece, source.text, head)

    def _explained(self, statement: Explain, source: Source) -> Result:
        bound = self._bound(statement.query, source, head=statement.head)
        plan = str(bound.frame.collect()[0][0])
        if plan.startswith(_NO_PLAN):
            self._bound(statement.query, source)  # Spark explains what it cannot run; running it says why.
        lines = [plan.rstrip(), "", "== Files of the lakehouse =="]
        lines += [scan.explained() for scan in bound.scans]
        return Result("information", answer=Answer("plan string", (("\n".join(lines),),)), scans=bound.scans)

    def _rows_changed(self, statement: RowChange, source: Source) -> Result:
        def work(transaction: LakeTransaction) -> RowCounts:
            binder = self._binder(self._sight(transaction), source)
            return change_rows(
                statement, transaction, binder, source, lambda query: self._bound(query, source, transaction)
            )

        counts, version = self._transaction.changed(work, source.summary)
        answer = count_rows(counts)
        return Result("change", said(counts), answer=answer, counts=counts, version=version)

    def _view_columns(self, view: LakeView) -> Schema:
        name = (view.locator.namespace, view.locator.name)
        frame = QueryBinder(self.engine, self._sight()).frame_of(name)
        assert frame is not None, "the view was found just now"
        return schema_of(frame.schema)

    def _use(self, statement: Use) -> Result:
        sight = self._sight()
        namespace = sight.catalog.namespace(sight.namespace_of(statement.namespace))
        self.namespace = namespace.name
        return Result("information", f"names without a namespace are now looked up in {namespace}")

    def _computed_text(self, piece: Piece, source: Source) -> str:
        return text_of(piece, self._binder(self._sight(), source), source.text)

    def _immediate(self, statement: ExecuteImmediate, source: Source) -> Result:
        text = self._computed_text(statement.text, source)
        arguments = immediate_arguments(statement, self._binder(self._sight(), source), source.text)
        if statement.into is None:
            return self.run(text, arguments)
        if not isinstance(parse_statement(text, 0, lambda piece: self._computed_text(piece, Source(text, 0))), Query):
            raise error_at(source.text, statement.text.start, "only a query has a row for INTO: leave INTO out")
        frame = self.frame(self.run(text, arguments))
        set_variables(statement.into, frame, kept_of(self.engine).names, source.text)
        return Result("information", f"set: {statement.into.text}")

    def _cached(self, statement: CacheTable, source: Source) -> Result:
        sight, parts = self._sight(), statement.name.parts
        if len(parts) == 1 and kept_of(self.engine).names.temporary_views(parts):
            return self._outcome(parse_query(Cursor(source.text, source.start)), source)
        name = sight.pair(statement.name)
        frame = self._binder(sight, source).frame_of(name)
        return Result("information", cache_table(statement, self.engine, name, frame))

    def _dropped_from_session(self, name: SqlName) -> bool:
        """Drop a temporary view, if it is one; a session of Spark's that has not begun has none."""
        if len(name.parts) != 1 or "engine" not in self.__dict__:
            return False
        return drop_temporary_view(self.engine.session, name.parts[0])

    def _defined(self, statement: Any, source: Source) -> Result:
        def work(transaction: LakeTransaction) -> str:
            return define(
                statement,
                transaction,
                replace(self._sight(transaction), text=source.text),
                lambda query, above=(): self._bound(query, source, transaction, above=above),
            )

        message, version = self._transaction.changed(work, source.summary)
        return Result("definition", message, version=version)


def _main_place(statement: Statement, start: int) -> int:
    """Return where the name stands that a statement is about, or where it begins."""
    names = (getattr(statement, field, None) for field in ("name", "table", "namespace"))
    name = next((name for name in names if name is not None), None)
    return name.start if isinstance(name, SqlName) else start
