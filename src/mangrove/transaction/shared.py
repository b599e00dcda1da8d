"""Shared transactions: begun by name, kept in the lakehouse, worked on by several, published once or not at all."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from mangrove.effects import Effects
from mangrove.errors import AlreadyExistsError, ConflictError, InvalidInputError, NotFoundError
from mangrove.metastore import Changes, Difference, Isolation, Metastore, Snapshot
from mangrove.model.locators import (
    DeltaLocator,
    Kind,
    Locator,
    SharedTransactionLocator,
    TableIdentity,
)
from mangrove.model.objects import Object, SharedTransaction
from mangrove.rivals import contested_by, positioned
from mangrove.transaction.comparing import differences_of, made_by
from mangrove.transaction.contest import contested
from mangrove.transaction.names import table_names
from mangrove.transaction.shared_form import SharedWork, decode_work, encode_work
from mangrove.transaction.shared_merge import merged_work
from mangrove.transaction.time_limit import latest_commit_millis
from mangrove.transaction.transaction import with_names
from mangrove.transaction.workspace import Workspace

__all__ = ["SharedTransactions", "found_shared", "work_of"]

_ATTEMPTS_MAX = 20


def found_shared(snapshot: Snapshot, name: str, now_millis: int) -> SharedTransaction:
    """Return the shared transaction of that name, if it can still be worked on."""
    value = snapshot.get(SharedTransactionLocator(name))
    if not isinstance(value, SharedTransaction):
        raise NotFoundError(
            f"there is no shared transaction {name!r}: it was published, discarded or never begun; see the history"
        )
    if now_millis >= value.expires_at_millis:
        raise InvalidInputError(
            f"shared transaction {name!r} expired {(now_millis - value.expires_at_millis) / 1000:.0f} s ago: "
            "begin it again, with a longer time to live"
        )
    return value


def work_of(shared: SharedTransaction) -> SharedWork:
    """Return what was staged in it when it was last saved."""
    return decode_work(shared.payload, f"shared transaction {shared.name!r}")


@dataclass(frozen=True, slots=True)
class SharedTransactions:
    """The shared transactions of one lakehouse."""

    effects: Effects
    metastore: Metastore

    def listed(self) -> Iterator[SharedTransaction]:
        """Yield those that can still be joined."""
        now_millis = self.effects.now_millis()
        for _, value in self.metastore.latest().children(Kind.SHARED_TRANSACTION, None):
            if isinstance(value, SharedTransaction) and now_millis < value.expires_at_millis:
                yield value

    def begin(self, name: str, work: SharedWork, lives_millis: int) -> SharedTransaction:
        """Make a shared transaction on the newest version; one of that name that has expired makes room."""
        newest, now_millis = self.metastore.latest(), self.effects.now_millis()
        there = newest.get(SharedTransactionLocator(name))
        if isinstance(there, SharedTransaction) and now_millis < there.expires_at_millis:
            raise AlreadyExistsError(f"there is a shared transaction {name!r} already: join it, or choose another name")
        newest.settings.check_object_name(Kind.SHARED_TRANSACTION, name)
        made = SharedTransaction(name, newest.version, now_millis, now_millis + lives_millis, payload=encode_work(work))
        self._put(newest, made, f"begin shared transaction {name}")
        return made

    def join(self, name: str) -> SharedTransaction:
        """Return it as it was last saved."""
        return found_shared(self.metastore.latest(), name, self.effects.now_millis())

    def save(self, known: SharedTransaction, mine: SharedWork) -> SharedTransaction:
        """Save what a participant staged since it knew the transaction, together with what others saved meanwhile."""
        for attempt in range(_ATTEMPTS_MAX):
            newest = self.metastore.latest()
            there = self._same(newest, known)
            saved = replace(there, payload=encode_work(merged_work(work_of(known), work_of(there), mine)))
            if saved == there:
                return there
            if self._is_put(newest, saved, f"save shared transaction {known.name}", attempt):
                return saved
        raise AssertionError("the last attempt raises")

    def extend(self, known: SharedTransaction, lives_millis: int) -> SharedTransaction:
        """Let it live for so long from now on."""
        for attempt in range(_ATTEMPTS_MAX):
            newest = self.metastore.latest()
            there = self._same(newest, known)
            longer = replace(there, expires_at_millis=self.effects.now_millis() + lives_millis)
            if self._is_put(newest, longer, f"extend shared transaction {known.name}", attempt):
                return longer
        raise AssertionError("the last attempt raises")

    def discard(self, name: str) -> None:
        """Forget it; what was written for it is garbage that vacuum finds."""
        for attempt in range(_ATTEMPTS_MAX):
            newest = self.metastore.latest()
            locator = SharedTransactionLocator(name)
            if newest.get(locator) is None:
                found_shared(newest, name, self.effects.now_millis())
            changes = Changes(
                self.effects.new_id(), deletes=frozenset([locator]), message=f"discard shared transaction {name}"
            )
            if self._is_committed(newest, changes, attempt):
                return
        raise AssertionError("the last attempt raises")

    def publish(self, known: SharedTransaction) -> Snapshot:
        """Make all of it real on the newest version, and end it, in one commit."""
        for attempt in range(_ATTEMPTS_MAX):
            now_millis, newest = self.effects.now_millis(), self.metastore.latest()
            there = self._same(newest, known)
            work = work_of(there)
            base = self.metastore.at_version(there.base_version)
            workspace = work.workspace(base)
            changes = work.changes(workspace)
            since = differences_of(self.metastore, base, newest)
            ready = self._on_newest(changes, work.isolation, since, newest, workspace)
            locator = SharedTransactionLocator(there.name)
            final = replace(
                ready,
                deletes=ready.deletes | {locator},
                commit_before_millis=latest_commit_millis(newest.settings, now_millis),
            )
            committed = self._committed(newest, final, work.isolation, attempt, workspace, locator)
            if committed is not None:
                return committed
        raise AssertionError("the last attempt raises")

    def _committed(
        self,
        newest: Snapshot,
        changes: Changes,
        isolation: Isolation,
        attempt: int,
        workspace: Workspace,
        locator: SharedTransactionLocator,
    ) -> Snapshot | None:
        """Return the version, or None if it was a participant that saved in between: that is worth another look."""
        try:
            return self.metastore.commit(newest, changes, isolation).snapshot
        except ConflictError as error:
            is_saved_since = self.metastore.latest().get(locator) != newest.get(locator)
            if not is_saved_since or attempt == _ATTEMPTS_MAX - 1:
                raise with_names(error, workspace.met) from error
        return None

    def _on_newest(
        self,
        changes: Changes,
        isolation: Isolation,
        since: Iterable[Difference],
        newest: Snapshot,
        workspace: Workspace,
    ) -> Changes:
        """Return the changes as they follow what was committed since their base, or refuse what stands in the way."""
        found = {one.locator: one.after for one in since if one.locator.kind is not Kind.SHARED_TRANSACTION}
        new = {
            locator: value
            for locator, value in changes.puts.items()
            if isinstance(locator, DeltaLocator) or found.get(locator) != value
        }
        rest = replace(changes, puts=new)
        clash = contested(rest, isolation, found)
        if clash:
            base = workspace.snapshot
            rival = made_by(self.metastore, clash[0], base, newest)
            error = contested_by(
                rival,
                [f"{clash[0].kind.word} {clash[0]}"],
                f"Nothing was published: the shared transaction stands on version {base.version}. Discard it, and do "
                f"again what it did on version {rival.version} or later",
            )
            raise with_names(error, _names_for(clash[0], newest, base))
        return positioned(rest, newest)

    def _same(self, newest: Snapshot, known: SharedTransaction) -> SharedTransaction:
        there = found_shared(newest, known.name, self.effects.now_millis())
        if (
            there.began_at_millis != known.began_at_millis
            or work_of(there).transaction_id != work_of(known).transaction_id
        ):
            raise ConflictError(
                f"shared transaction {known.name!r} is another one than was joined: that was published or discarded"
            )
        return there

    def _is_put(self, newest: Snapshot, value: SharedTransaction, message: str, attempt: int) -> bool:
        puts: dict[Locator, Object] = {SharedTransactionLocator(value.name): value}
        return self._is_committed(newest, Changes(self.effects.new_id(), puts, message=message), attempt)

    def _put(self, newest: Snapshot, value: SharedTransaction, message: str) -> None:
        self._is_put(newest, value, message, _ATTEMPTS_MAX - 1)

    def _is_committed(self, newest: Snapshot, changes: Changes, attempt: int) -> bool:
        """Commit; a conflict can only be about the one object, and is worth another look at it."""
        limit_millis = latest_commit_millis(newest.settings, self.effects.now_millis())
        try:
            self.metastore.commit(newest, replace(changes, commit_before_millis=limit_millis), Isolation.SNAPSHOT)
        except ConflictError:
            if attempt == _ATTEMPTS_MAX - 1:
                raise
            self.effects.pause(0.01 * 2 ** min(attempt, 6))
            return False
        return True


def _names_for(locator: Locator, *snapshots: Snapshot) -> dict[TableIdentity, str]:
    """Return the name of the table below which an object lies."""
    if locator.kind < Kind.TABLE_VERSION:
        return {}
    namespace_id, table_id = locator.parts[:2]
    return table_names({TableIdentity(str(namespace_id), str(table_id))}, *snapshots)
