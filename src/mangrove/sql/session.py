"""SQL session with transactions, savepoints and script execution."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import cached_property
from typing import Any, Final, TypeVar, assert_never

from mangrove.errors import AlreadyExistsError, InvalidInputError, NotFoundError
from mangrove.expressions.expr import RequiresSparkError
from mangrove.lakehouse.catalog import Catalog
from mangrove.lakehouse.engine_port import SqlRunner
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.new_table import parse_schema_argument
from mangrove.lakehouse.snapshot import Snapshot
from mangrove.lakehouse.sql_port import Arguments, Frame, SqlEngine, check_sql_engine
from mangrove.lakehouse.transaction import Transaction
from mangrove.lakehouse.view import ViewSnapshot
from mangrove.maintenance.engine_choice import LOCAL
from mangrove.model.schema import Schema
from mangrove.sql.errors import build_runtime_error
from mangrove.sql.execute.access import execute_grant, execute_show_grants
from mangrove.sql.execute.call import execute_call
from mangrove.sql.execute.ddl import execute_ddl
from mangrove.sql.execute.dml import DmlStatement, execute_dml, format_row_counts
from mangrove.sql.execute.query import (
    BoundQuery,
    QueryBinder,
    evaluate_immediate_arguments,
    evaluate_text,
    set_variables,
)
from mangrove.sql.execute.show import InlineResult, build_count_result, execute_describe, execute_show
from mangrove.sql.parse.clauses import parse_query
from mangrove.sql.parse.grammar import parse_statement
from mangrove.sql.parse.statements import (
    AlterNamespace,
    AlterTable,
    AlterView,
    Analyze,
    BeginStatement,
    CacheTable,
    CallStatement,
    CommitStatement,
    CreateNamespace,
    CreateTable,
    CreateView,
    Describe,
    DropObject,
    ExecuteImmediate,
    Explain,
    GrantStatement,
    Query,
    RollbackStatement,
    SavepointStatement,
    ShowStatement,
    Statement,
    TemporaryView,
    Use,
)
from mangrove.sql.parse.tokens import (
    SqlFragment,
    SqlName,
    TokenCursor,
    build_error_at,
    line_of,
    locate_error,
    split_script,
)
from mangrove.sql.resolver import NameResolver, StatementSource, list_known_names
from mangrove.sql.results import Result
from mangrove.sql.statement_cache import cache_table
from mangrove.tables.write_plan import RowCounts
from mangrove.transaction.transaction import TransactionState
from mangrove.transaction.workspace import Savepoint as WorkspaceSavepoint

__all__ = ["SessionTransaction", "SqlSession", "run_sql"]

T = TypeVar("T")


class SessionTransaction:
    """At most one open transaction; the caller ends one that it passed in."""

    def __init__(self, lake: Lakehouse, transaction: Transaction | None) -> None:
        self._lake = lake
        self._transaction = transaction
        self._is_ours = transaction is None
        self._savepoints: dict[str, WorkspaceSavepoint] = {}

    @property
    def open(self) -> Transaction | None:
        """The open transaction, if there is one."""
        if self._transaction is not None and self._transaction.state is not TransactionState.OPEN:
            self._clear()
        return self._transaction

    def close(self) -> None:
        """Discard the open transaction."""
        if self._is_ours and self.open is not None:
            self.open.rollback()
        self._clear()

    def control(self, statement: BeginStatement | CommitStatement | RollbackStatement | SavepointStatement) -> Result:
        """Execute a transaction control statement."""
        if isinstance(statement, BeginStatement):
            return self._begin(statement)
        transaction = self.open
        if transaction is None:
            raise InvalidInputError("no transaction is open; use BEGIN first")
        match statement:
            case SavepointStatement(name, is_release):
                return self._release_savepoint(name) if is_release else self._set_savepoint(name, transaction)
            case RollbackStatement(name):
                return self._rollback(transaction) if name is None else self._rollback_to(name, transaction)
            case CommitStatement(message):
                self._check_owned()
                self._clear()
                version = transaction.commit(message)
                return Result("transaction", f"committed as version {version}", version=version)
            case _:
                assert_never(statement)

    def run_change(self, work: Callable[[Transaction], T], message: str) -> tuple[T, int | None]:
        """Run work in the open transaction, or in its own; a failure leaves no changes."""
        transaction = self.open
        if transaction is None:
            attempts: list[Transaction] = []

            def attempt(transaction: Transaction) -> T:
                attempts.append(transaction)
                return work(transaction)

            outcome = self._lake.run(attempt, message=message)
            return outcome, attempts[-1].version
        before = transaction._reading().savepoint()
        try:
            return work(transaction), None
        except BaseException:
            transaction._reading().restore(before)
            raise

    def _begin(self, statement: BeginStatement) -> Result:
        if self.open is not None:
            raise InvalidInputError(
                "a transaction is already open and transactions cannot be nested; COMMIT or ROLLBACK it first"
            )
        self._transaction = self._lake.transaction(statement.isolation or "snapshot", message=statement.message)
        return Result("transaction", f"began a transaction at version {self._transaction.base_version}")

    def _set_savepoint(self, name: str, transaction: Transaction) -> Result:
        # One that is set again is the newest, so its old place among the others goes.
        self._savepoints.pop(name, None)
        self._savepoints[name] = transaction._reading().savepoint()
        return Result("transaction", f"set savepoint {name}")

    def _release_savepoint(self, name: str) -> Result:
        self._savepoint(name)
        del self._savepoints[name]
        return Result("transaction", f"released savepoint {name}")

    def _rollback(self, transaction: Transaction) -> Result:
        self._check_owned()
        transaction.rollback()
        self._clear()
        return Result("transaction", "rolled back the transaction")

    def _rollback_to(self, name: str, transaction: Transaction) -> Result:
        transaction._reading().restore(self._savepoint(name))
        names = list(self._savepoints)
        for later in names[names.index(name) + 1 :]:
            del self._savepoints[later]
        return Result("transaction", f"rolled back to savepoint {name}")

    def _savepoint(self, name: str) -> WorkspaceSavepoint:
        if name not in self._savepoints:
            known = ", ".join(self._savepoints) or "none"
            raise NotFoundError(f"savepoint {name} does not exist; existing savepoints: {known}")
        return self._savepoints[name]

    def _check_owned(self) -> None:
        if not self._is_ours:
            raise InvalidInputError("the transaction was begun in Python; commit it or roll it back there")

    def _clear(self) -> None:
        self._transaction = None
        self._savepoints = {}


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

    Outside of a transaction each statement commits by itself. Inside, a failed statement
    has no effect, and the transaction stays open until the user commits it or rolls it back.
    """

    def __init__(
        self,
        lake: Lakehouse,
        *,
        transaction: Transaction | None = None,
        engine: str | None = None,
        prunes: bool = True,
    ) -> None:
        self.lake = lake
        self._engine_name = check_sql_engine(engine)
        self.namespace = _FIRST_NAMESPACE
        self._transaction = SessionTransaction(lake, transaction)
        self._prunes = prunes

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""
        return self._transaction.open is not None

    @property
    def isolation(self) -> str | None:
        """The isolation level of the open transaction."""
        transaction = self._transaction.open
        return None if transaction is None else transaction.isolation.value

    @cached_property
    def engine(self) -> SqlEngine:
        """The engine that runs queries, which starts with the first one."""
        return self._runner.sql_engine(self._engine_name)

    @property
    def _runner(self) -> SqlRunner:
        engines: object = self.lake.engines
        if not isinstance(engines, SqlRunner):
            raise InvalidInputError("SQL needs an engine; open the lakehouse with mangrove.open or mangrove.create")
        return engines

    def run(self, text: str, arguments: Arguments = None) -> Result:
        """Run one statement; `arguments` are for its parameters, `:name` or `?`."""
        parts = split_script(text)
        if len(parts) != 1:
            raise InvalidInputError(f"expected one statement, not {len(parts)}; run several as a script")
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
        """Return the rows of a result as a frame of the engine, also for statements that are not queries."""
        if result.frame is not None:
            return result.frame
        answer = result.answer or InlineResult("result string", ((result.message,),))
        return self.engine.create_frame(answer.schema, answer.rows)

    def run_change(self, work: Callable[[Transaction], T], message: str) -> tuple[T, int | None]:
        """Run work in the open transaction, or in its own, and return its result and the committed version, if any."""
        with self._runner.without_spark() if self.engine.row_engine == LOCAL else nullcontext():
            return self._transaction.run_change(work, message)

    def close(self) -> None:
        """Discard the open transaction."""
        self._transaction.close()

    def names(self, prefix: str = "") -> list[str]:
        """Return the names of namespaces, tables and views with a prefix, for completion."""
        catalog = self._create_resolver().catalog
        all_names = [*(namespace.name for namespace in catalog.namespaces()), *list_known_names(catalog)]
        return [name for name in all_names if name.startswith(prefix)]

    def _run(self, whole: str, text: str, start: int, arguments: Arguments) -> Result:
        # The text before the statement is included, so that all positions are those of the script.
        source, place = StatementSource(whole[: start + len(text)], start, arguments), start
        try:
            with self.engine.suppress_logging():
                statement = parse_statement(source.text, start, lambda piece: self._evaluate_text(piece, source))
                place = _main_position(statement, start)
                result = self._execute(statement, source)
        except RequiresSparkError as error:
            message, newline, caret = str(error).partition("\n")
            refused = InvalidInputError(f"{message}; the statement needs Spark{newline}{caret}")
            raise locate_error(refused, source.text, place) from error
        except (InvalidInputError, NotFoundError, AlreadyExistsError) as error:
            raise locate_error(error, source.text, place) from error
        except self.engine.runtime_errors as error:
            reason = build_runtime_error(self.engine.describe_runtime_error(error))
            raise locate_error(reason, source.text, place) from error
        return replace(result, line=line_of(whole, start))

    def _execute(self, statement: Statement, source: StatementSource) -> Result:
        match statement:
            case BeginStatement() | CommitStatement() | RollbackStatement() | SavepointStatement():
                return self._transaction.control(statement)
            case Query():
                bound = self._bind(statement, source)
                return Result("query", frame=bound.frame, engine=self.engine, scans=bound.scans)
            case Explain():
                return self._explain(statement, source)
            case TemporaryView():
                frame = self._bind(statement.query, source).frame
                if statement.columns:
                    frame = self.engine.rename_columns(frame, statement.columns)
                self.engine.create_temporary_view(
                    frame, statement.name.parts[-1], or_replace=statement.or_replace, is_global=statement.is_global
                )
                return Result("definition", f"created temporary view {statement.name.parts[-1]}")
            case Use():
                return self._use(statement)
            case GrantStatement():
                return self._execute_grant(statement)
            case ShowStatement():
                return Result("information", answer=self._execute_show(statement))
            case Describe():
                return Result(
                    "information", answer=execute_describe(statement, self._create_resolver(), self._view_columns)
                )
            case DropObject("view", name) if self._drop_session_view(name):
                return Result("definition", f"dropped temporary view {name.parts[-1]}")
            case _ if isinstance(statement, _DEFINITIONS):
                return self._execute_ddl(statement, source)
            case CacheTable():
                return self._execute_cache(statement, source)
            case Analyze(name):
                execute_show(ShowStatement("columns", name), self._create_resolver(), self._view_columns)
                return Result("information", "statistics are collected when files are written; nothing to do")
            case ExecuteImmediate():
                return self._execute_immediate(statement, source)
            case CallStatement():
                return Result(
                    "procedure",
                    answer=execute_call(statement, source, self.lake, self._transaction.open, self.namespace),
                )
            case _:
                return self._execute_dml(statement, source)

    def _create_resolver(self, catalog: Catalog | None = None) -> NameResolver:
        if catalog is None:
            # One version for the whole statement, whatever is committed meanwhile.
            catalog = self._transaction.open or Snapshot(self.lake._reading(), self.lake.clients, self.lake.engines)
        return NameResolver(
            catalog,
            self.lake.at,
            self.lake.history,
            self.namespace,
            lambda locator: self.lake.table(locator).history(),
            self.lake._new_id,
        )

    def _create_binder(self, resolver: NameResolver, source: StatementSource) -> QueryBinder:
        return QueryBinder(self.engine, resolver, source.arguments, prunes=self._prunes, start=source.start)

    def _bind(
        self,
        query: Query,
        source: StatementSource,
        catalog: Catalog | None = None,
        head: str = "",
        above: tuple[str, ...] = (),
    ) -> BoundQuery:
        resolver = self._create_resolver(catalog)
        binder = replace(self._create_binder(resolver, source), above=above)
        if query.at is not None:
            at = query.at if isinstance(query.at, int | str) else binder.resolve_as_of(query.at, source.text)
            binder = replace(binder, resolver=replace(resolver, catalog=self.lake.at(at)))
        return binder.query(query.piece, source.text, head)

    def _explain(self, statement: Explain, source: StatementSource) -> Result:
        bound = self._bind(statement.query, source, head=statement.head)
        plan = str(self.engine.collect_rows(bound.frame)[0][0])
        if plan.startswith(_NO_PLAN):
            self._bind(statement.query, source)  # EXPLAIN does not raise errors; binding the query does.
        lines = [plan.rstrip(), "", "== Files of the lakehouse =="]
        lines += [scan.explain() for scan in bound.scans] or ["none is read"]
        return Result("information", answer=InlineResult("plan string", (("\n".join(lines),),)), scans=bound.scans)

    def _execute_dml(self, statement: DmlStatement, source: StatementSource) -> Result:
        def work(transaction: Transaction) -> RowCounts:
            binder = self._create_binder(self._create_resolver(transaction), source)
            return execute_dml(
                statement, transaction, binder, source, lambda query: self._bind(query, source, transaction)
            )

        counts, version = self.run_change(work, source.summary)
        answer = build_count_result(counts)
        return Result("change", format_row_counts(counts), answer=answer, counts=counts, version=version)

    def _view_columns(self, view: ViewSnapshot) -> Schema:
        name = (view.locator.namespace, view.locator.name)
        frame = QueryBinder(self.engine, self._create_resolver()).frame_of(name)
        assert frame is not None, "the view was found just now"
        return parse_schema_argument(frame.schema)

    def _use(self, statement: Use) -> Result:
        resolver = self._create_resolver()
        namespace = resolver.catalog.namespace(resolver.namespace_of(statement.namespace))
        self.namespace = namespace.name
        return Result("information", f"the current namespace is {namespace}")

    def _evaluate_text(self, piece: SqlFragment, source: StatementSource) -> str:
        return evaluate_text(piece, self._create_binder(self._create_resolver(), source), source.text)

    def _execute_immediate(self, statement: ExecuteImmediate, source: StatementSource) -> Result:
        text = self._evaluate_text(statement.text, source)
        arguments = evaluate_immediate_arguments(
            statement, self._create_binder(self._create_resolver(), source), source.text
        )
        if statement.into is None:
            return self.run(text, arguments)
        if not isinstance(
            parse_statement(text, 0, lambda piece: self._evaluate_text(piece, StatementSource(text, 0))), Query
        ):
            raise build_error_at(source.text, statement.text.start, "INTO requires a query; remove it")
        frame = self.frame(self.run(text, arguments))
        set_variables(statement.into, frame, self.engine, source.text)
        return Result("information", f"set: {statement.into.text}")

    def _execute_cache(self, statement: CacheTable, source: StatementSource) -> Result:
        resolver, parts = self._create_resolver(), statement.name.parts
        if len(parts) == 1 and self.engine.list_temporary_views(parts):
            return self._execute(parse_query(TokenCursor(source.text, source.start)), source)
        name = resolver.pair(statement.name)
        frame = self._create_binder(resolver, source).frame_of(name)
        return Result("information", cache_table(statement, self.engine, name, frame))

    def _drop_session_view(self, name: SqlName) -> bool:
        """Drop a temporary view if it exists."""
        return len(name.parts) == 1 and self.engine.drop_temporary_view(name.parts[0])

    def _execute_show(self, statement: ShowStatement) -> InlineResult:
        if statement.kind == "exports":
            rows = tuple((one.name, one.version, one.location) for one in self.lake.maintenance.exports())
            return InlineResult("name string, version bigint, location string", rows)
        resolver = self._create_resolver()
        if statement.kind.endswith(" grants"):
            return execute_show_grants(statement, self.lake.access, resolver)
        return execute_show(statement, resolver, self._view_columns)

    def _execute_grant(self, statement: GrantStatement) -> Result:
        if self._transaction.open is not None:
            raise InvalidInputError("GRANT and REVOKE cannot run inside a transaction; COMMIT or ROLLBACK first")
        return Result("definition", execute_grant(statement, self.lake.access, self._create_resolver()))

    def _execute_ddl(self, statement: Any, source: StatementSource) -> Result:
        def work(transaction: Transaction) -> str:
            return execute_ddl(
                statement,
                transaction,
                replace(self._create_resolver(transaction), text=source.text),
                lambda query, above=(): self._bind(query, source, transaction, above=above),
            )

        message, version = self.run_change(work, source.summary)
        return Result("definition", message, version=version)


def _main_position(statement: Statement, start: int) -> int:
    """Return the position of a statement's main name, or its start."""
    names = (getattr(statement, field, None) for field in ("name", "table", "namespace"))
    name = next((name for name in names if name is not None), None)
    return name.start if isinstance(name, SqlName) else start


def run_sql(
    lake: Lakehouse,
    transaction: Transaction | None,
    text: str,
    arguments: Arguments = None,
    engine: str | None = None,
) -> Frame:
    """Run statements and return the rows of the last one as a frame; if it is not a query, its message.

    A transaction that the text begins must end in it, because it cannot be ended later.
    """
    session = SqlSession(lake, transaction=transaction, engine=engine)
    last: Result | None = None
    try:
        for result in session.script(text, arguments):
            last = result
        if transaction is None and session.in_transaction:
            raise InvalidInputError(
                "the transaction was not committed and was rolled back; add COMMIT, or use lake."
                "transaction() with its sql, or a SqlSession"
            )
    finally:
        session.close()
    if last is None:
        raise InvalidInputError("the text has no statement; give one, such as SELECT 1")
    return session.frame(last)
