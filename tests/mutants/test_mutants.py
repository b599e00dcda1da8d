"""The list of mutants fits the code, and the runner tells killed mutants from surviving ones."""

import re
from collections import Counter

import pytest
from tests.mutants.__main__ import main
from tests.mutants.catalog import ROOT, Mutant, load_mutants

MUTANTS = load_mutants()
CONTRACTS = ROOT / "src/mangrove/testing/metastore_contract.py"


def test_at_least_sixty_mutants_have_distinct_names_and_changes() -> None:
    assert len(MUTANTS) >= 60
    for counted in (
        Counter(mutant.name for mutant in MUTANTS),
        Counter((mutant.file, mutant.old, mutant.new) for mutant in MUTANTS),
    ):
        assert max(counted.values()) == 1


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_old_text_of_a_mutant_occurs_once_and_the_changed_module_compiles(mutant: Mutant) -> None:
    text = (ROOT / mutant.path).read_text()
    changed = mutant.apply(text)
    assert changed != text
    compile(changed, mutant.path, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_of_a_mutant_exist(mutant: Mutant) -> None:
    for test in mutant.tests:
        path, *names = test.split("::")
        sources = (ROOT / "tests" / path).read_text() + CONTRACTS.read_text()
        for name in names:
            assert re.search(rf"(?:def|class) {re.escape(name.partition('[')[0])}\b", sources), test


def test_a_mutant_whose_old_text_is_gone_is_reported_with_the_remedy() -> None:
    with pytest.raises(ValueError, match=r"occurs 0 times in src/mangrove/errors\.py, expected once; correct or"):
        Mutant("gone", "errors.py", "old text", "new text", ("x.py",)).apply("other text")


def test_a_mutant_has_either_tests_or_an_argument() -> None:
    with pytest.raises(ValueError, match="either tests or the argument"):
        Mutant("neither", "errors.py", "old", "new")
    with pytest.raises(ValueError, match="either tests or the argument"):
        Mutant("both", "errors.py", "old", "new", ("x.py",), "nothing reads it")


@pytest.mark.slow
def test_the_runner_tells_killed_mutants_from_surviving_ones(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    test = "layouts/test_lost_response.py::test_a_create_that_is_refused_at_once_is_not_read_back"
    old, file = "lost: StorageError | None = None", "layouts/lost_response.py"
    mutants = [
        Mutant("harmless", file, old, f"{old}  # the same", (test,)),
        Mutant("harmful", file, old, 'lost: StorageError | None = StorageError("")', (test,)),
    ]
    monkeypatch.setattr("tests.mutants.__main__.load_mutants", lambda only: mutants)
    before = (ROOT / mutants[0].path).read_bytes()
    assert main(["--jobs", "1"]) == 1
    printed = capsys.readouterr().out
    assert re.search(r"^SURVIVED .* harmless$", printed, re.MULTILINE)
    assert re.search(r"^killed .* harmful$", printed, re.MULTILINE)
    assert "1 of 2 mutants killed" in printed
    assert (ROOT / mutants[0].path).read_bytes() == before
