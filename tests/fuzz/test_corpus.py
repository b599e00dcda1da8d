"""Every input of the corpus is decoded or refused with an error of ours, and every target has inputs."""

from pathlib import Path

import pytest
from tests.fuzz.targets import TARGETS, run_target

CORPUS = Path(__file__).with_name("corpus")


@pytest.mark.parametrize("target", TARGETS)
def test_no_input_of_the_corpus_raises_a_raw_exception(target: str) -> None:
    inputs = sorted((CORPUS / target).iterdir())
    assert inputs
    for path in inputs:
        run_target(target, path.read_bytes())


def test_every_folder_of_the_corpus_belongs_to_a_target() -> None:
    assert {path.name for path in CORPUS.iterdir()} == TARGETS.keys()
