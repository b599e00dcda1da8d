"""What each version of a lakehouse changed, as the changes that make the same version of another one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from mangrove.maintenance.convert_carrying import Carrying
from mangrove.maintenance.maintained import Maintained
from mangrove.metastore import Changes, Commit, Difference, Snapshot
from mangrove.model.locators import Kind, Locator
from mangrove.model.objects import Object
from mangrove.model.settings import LakehouseSettings

__all__ = ["Step", "changes_of", "steps", "target_of_rollback"]

_KINDS = tuple(kind for kind in Kind if kind is not Kind.LAKEHOUSE)


@dataclass(frozen=True, slots=True)
class Step:
    """One version of the source, after the one before it."""

    before: Snapshot | None
    after: Snapshot

    @property
    def commit(self) -> Commit:
        """The history's line about the version."""
        return self.after.commit

    def differences(self, lake: Maintained) -> Iterator[Difference]:
        """Yield what the version changed, parents before children; of the first version all that it holds."""
        if self.before is not None:
            yield from lake.upkeep.differences(self.before, self.after)
            return
        for kind in _KINDS:
            for locator, value in lake.upkeep.objects(self.after, kind):
                yield Difference(locator, None, value)


def steps(lake: Maintained, versions: Sequence[int], done: int = 0) -> Iterator[Step]:
    """Yield the versions one after the other, without the first `done` of them."""
    before = lake.metastore.at_version(versions[done - 1]) if done else None
    for version in versions[done:]:
        after = lake.metastore.at_version(version)
        yield Step(before, after)
        before = after


def changes_of(lake: Maintained, step: Step, carrying: Carrying, transaction_id: str) -> Changes:
    """Return the changes that make the destination's next version hold what this one holds.

    A version that changed nothing, such as one that only wrote the tree anew, is a
    version all the same: then the definition is written again.
    """
    puts: dict[Locator, Object] = {}
    deletes: set[Locator] = set()
    for one in step.differences(lake):
        before = None if one.before is None else carrying.object(one.before)
        after = None if one.after is None else carrying.object(one.after)
        if after is not None and after != before:
            puts[one.locator] = after
        elif after is None and before is not None:
            deletes.add(one.locator)
    settings = carrying.settings(step.after.settings)
    is_new = step.before is None or settings != carrying.settings(step.before.settings)
    commit = step.commit
    return Changes(
        transaction_id,
        puts=puts,
        deletes=frozenset(deletes),
        settings=settings if is_new or not (puts or deletes) else None,
        message=commit.message,
        author=commit.author,
        properties=commit.properties,
    )


def target_of_rollback(lake: Maintained, versions: Sequence[int], number: int) -> int | None:
    """Return which of the versions before it the version at this place holds again, or None if that one is gone.

    The history does not say it, so versions are compared, the latest first. They
    share all their nodes with the one that is looked for, so each costs one request.
    """
    after = lake.metastore.at_version(versions[number])
    for earlier in reversed(range(number)):
        before = lake.metastore.at_version(versions[earlier])
        if next(iter(lake.upkeep.differences(before, after)), None) is None and _same_settings(before, after):
            return earlier
    return None


def _same_settings(before: Snapshot, after: Snapshot) -> bool:
    """Return whether two versions have the same definition, without what it says of versions."""

    def content(snapshot: Snapshot) -> LakehouseSettings:
        return replace(snapshot.settings, exported_snapshots={}, maximum_version_age_millis_overrides={})

    return content(before) == content(after)
