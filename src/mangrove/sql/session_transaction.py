"""The transaction in which the statements of a SQL session run: begun, ended and partly taken back by statements."""

from collections.abc import Callable
from typing import TypeVar, assert_never

from mangrove.errors import InvalidInputError, NotFoundError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.sql.results import Result
from mangrove.sql.statements import Begin, Commit, Rollback, Savepoint
from mangrove.transaction.transaction import State
from mangrove.transaction.workspace import Savepoint as WorkspaceSavepoint

__all__ = ["SessionTransaction"]

T = TypeVar("T")


class SessionTransaction:
    """At most one open transaction; one that was handed in is ended by whoever began it."""

    def __init__(self, lake: Lakehouse, transaction: LakeTransaction | None) -> None:
        self._lake = lake
        self._transaction = transaction
        self._is_ours = transaction is None
        self._savepoints: dict[str, WorkspaceSavepoint] = {}

    @property
    def open(self) -> LakeTransaction | None:
        """The transaction that waits for a COMMIT, if there is one."""
        if self._transaction is not None and self._transaction.state is not State.OPEN:
            self._forget()
        return self._transaction

    def close(self) -> None:
        """Forget the transaction that is open."""
        if self._is_ours and self.open is not None:
            self.open.rollback()
        self._forget()

    def control(self, statement: Begin | Commit | Rollback | Savepoint) -> Result:
        """Do what a statement says about the transaction itself."""
        if isinstance(statement, Begin):
            return self._begin(statement)
        transaction = self.open
        if transaction is None:
            raise InvalidInputError("no transaction is open: write BEGIN first")
        match statement:
            case Savepoint(name, is_release):
                return self._release(name) if is_release else self._set(name, transaction)
            case Rollback(name):
                return self._rolled_back(transaction) if name is None else self._rolled_back_to(name, transaction)
            case Commit(message):
                self._check_ours()
                self._forget()
                version = transaction.commit(message)
                return Result("transaction", f"committed as version {version}", version=version)
            case _:
                assert_never(statement)

    def changed(self, work: Callable[[LakeTransaction], T], message: str) -> tuple[T, int | None]:
        """Run work in the open transaction, or in one of its own; what fails leaves nothing behind."""
        transaction = self.open
        if transaction is None:
            attempts: list[LakeTransaction] = []

            def attempt(own: LakeTransaction) -> T:
                attempts.append(own)
                return work(own)

            outcome = self._lake.run(attempt, message=message)
            return outcome, attempts[-1].version
        before = transaction.reading().savepoint()
        try:
            return work(transaction), None
        except BaseException:
            transaction.reading().restore(before)
            raise

    def _begin(self, statement: Begin) -> Result:
        if self.open is not None:
            raise InvalidInputError("a transaction is open already, and they do not nest: COMMIT or ROLLBACK it first")
        self._transaction = self._lake.transaction(statement.isolation or "snapshot", message=statement.message)
        return Result("transaction", f"a transaction began on version {self._transaction.base_version}")

    def _set(self, name: str, transaction: LakeTransaction) -> Result:
        # One that is set again is the newest, so its old place among the others goes.
        self._savepoints.pop(name, None)
        self._savepoints[name] = transaction.reading().savepoint()
        return Result("transaction", f"savepoint {name} is set")

    def _release(self, name: str) -> Result:
        self._savepoint(name)
        del self._savepoints[name]
        return Result("transaction", f"savepoint {name} is forgotten")

    def _rolled_back(self, transaction: LakeTransaction) -> Result:
        self._check_ours()
        transaction.rollback()
        self._forget()
        return Result("transaction", "the transaction is rolled back")

    def _rolled_back_to(self, name: str, transaction: LakeTransaction) -> Result:
        transaction.reading().restore(self._savepoint(name))
        names = list(self._savepoints)
        for later in names[names.index(name) + 1 :]:
            del self._savepoints[later]
        return Result("transaction", f"all that came after savepoint {name} is forgotten")

    def _savepoint(self, name: str) -> WorkspaceSavepoint:
        if name not in self._savepoints:
            known = ", ".join(self._savepoints) or "none"
            raise NotFoundError(f"there is no savepoint {name}; there are: {known}")
        return self._savepoints[name]

    def _check_ours(self) -> None:
        if not self._is_ours:
            raise InvalidInputError("the transaction was begun in Python: commit it or roll it back there")

    def _forget(self) -> None:
        self._transaction = None
        self._savepoints = {}
