"""Which versions may go, against a slow and plain restatement of the rules."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from mangrove.maintenance.expiry import is_live, select_expirable
from mangrove.metastore import Commit
from mangrove.model.objects import SharedTransactionEntry, SharedTransactionState
from mangrove.model.settings import TIME_LIMIT_PROPERTY, LakehouseSettings
from mangrove.transaction.transaction import youngest_expirable_millis

NOBODY: frozenset[int] = frozenset()


def commits(*created_at_millis: int, first: int = 0) -> list[Commit]:
    return [Commit(version, at, f"t{version}") for version, at in enumerate(created_at_millis, first)]


def settings(age: int, keep: int = 1, **overrides: int) -> LakehouseSettings:
    return LakehouseSettings(
        maximum_version_age_millis=age,
        minimum_versions_to_keep=keep,
        maximum_version_age_millis_overrides={int(version[1:]): millis for version, millis in overrides.items()},
    )


def test_versions_older_than_the_maximum_age_expire() -> None:
    kept = commits(100, 200, 300, 400)
    assert select_expirable(kept, settings(150), NOBODY, now_millis=400, safe_millis=0) == [0, 1]


def test_a_version_exactly_as_old_as_the_maximum_age_is_retained() -> None:
    assert select_expirable(commits(100, 200), settings(300), NOBODY, now_millis=400, safe_millis=0) == []
    assert select_expirable(commits(100, 200), settings(299), NOBODY, now_millis=400, safe_millis=0) == [0]


def test_the_minimum_number_of_newest_versions_is_retained_at_any_age() -> None:
    kept = commits(100, 200, 300, 400)
    assert select_expirable(kept, settings(0, keep=3), NOBODY, now_millis=10**9, safe_millis=0) == [0]
    assert select_expirable(kept, settings(0, keep=9), NOBODY, now_millis=10**9, safe_millis=0) == []


def test_a_pinned_version_is_retained_and_adjacent_ones_expire() -> None:
    kept = commits(100, 200, 300, 400)
    assert select_expirable(kept, settings(0), {1}, now_millis=10**9, safe_millis=0) == [0, 2]


def test_a_version_with_a_longer_age_override_is_retained_and_later_ones_expire() -> None:
    kept = commits(100, 200, 300, 400)
    assert select_expirable(kept, settings(50, v1=10_000), NOBODY, now_millis=500, safe_millis=0) == [0, 2]


def test_a_version_with_a_shorter_age_override_expires_only_after_earlier_ones() -> None:
    kept = commits(100, 200, 300, 400)
    short = settings(1_000, v1=10)
    assert select_expirable(kept, short, NOBODY, now_millis=500, safe_millis=0) == []
    assert select_expirable(kept[1:], short, NOBODY, now_millis=500, safe_millis=0) == [1]


def test_an_old_version_that_was_recently_the_newest_is_retained() -> None:
    kept = commits(100, 1_000_000)
    assert select_expirable(kept, settings(50), NOBODY, now_millis=1_000_010, safe_millis=20) == []
    assert select_expirable(kept, settings(50), NOBODY, now_millis=1_000_020, safe_millis=20) == [0]


def test_a_version_without_a_time_has_the_age_of_the_next_version_with_one() -> None:
    kept = commits(0, 0, 300, 400)
    assert select_expirable(kept, settings(150), NOBODY, now_millis=450, safe_millis=0) == []
    assert select_expirable(kept, settings(150), NOBODY, now_millis=451, safe_millis=0) == [0, 1, 2]
    assert select_expirable(commits(0, 0, 0), settings(0), NOBODY, now_millis=10**9, safe_millis=0) == []


def test_a_shared_transaction_is_live_until_a_while_after_it_expired() -> None:
    shared = SharedTransactionEntry("load", 0, 100, 200)
    assert is_live(shared, 199, 0)
    assert not is_live(shared, 200, 0)
    assert is_live(shared, 200, 50)
    assert not is_live(SharedTransactionEntry("load", 0, 100, 200, SharedTransactionState.PUBLISHED), 150, 50)


def test_a_version_may_expire_only_after_two_time_limits_and_a_commit() -> None:
    limited = LakehouseSettings(properties={TIME_LIMIT_PROPERTY: "1000"})
    assert youngest_expirable_millis(limited) == 2 * 1_000 + 600_000


@st.composite
def histories(draw: st.DrawFn) -> list[Commit]:
    steps = draw(st.lists(st.integers(1, 50), max_size=12))
    at = 1
    kept = []
    for version, step in enumerate(steps):
        at += step
        kept.append(Commit(version, at, "t"))
    gone = draw(st.sets(st.sampled_from(kept), max_size=3)) if kept else set()
    return [commit for commit in kept if commit not in gone]


@given(
    histories(),
    st.integers(0, 300),
    st.integers(1, 5),
    st.dictionaries(st.integers(0, 12), st.integers(0, 600), max_size=3),
    st.frozensets(st.integers(0, 12), max_size=3),
    st.integers(0, 700),
    st.integers(0, 100),
)
def test_versions_retained_by_any_rule_never_expire(
    kept: list[Commit],
    age: int,
    keep: int,
    overrides: dict[int, int],
    named: frozenset[int],
    now: int,
    safe: int,
) -> None:
    rules = LakehouseSettings(
        maximum_version_age_millis=age,
        minimum_versions_to_keep=keep,
        maximum_version_age_millis_overrides=overrides,
    )
    gone = select_expirable(kept, rules, named, now, safe)
    by_version = {commit.version: commit for commit in kept}
    assert gone == sorted(set(gone) & by_version.keys())
    for version in gone:
        assert now - by_version[version].created_at_millis > overrides.get(version, age)
        assert version not in named
        assert now - _next(kept, version).created_at_millis >= safe
    assert len(kept) - len(gone) >= min(keep, len(kept))
    assert not set(gone) & {commit.version for commit in kept[-keep:]}
    for commit in kept:
        stays = commit.version not in gone and commit.version not in named
        lives_longer = overrides.get(commit.version, age) > age and now - commit.created_at_millis > age
        if stays and not lives_longer:
            assert all(version < commit.version for version in gone)


def _next(kept: Sequence[Commit], version: int) -> Commit:
    return min((commit for commit in kept if commit.version > version), key=lambda commit: commit.version)
