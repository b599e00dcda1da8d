"""The curated list of mutants: one-line changes of the commit protocol, each with the tests that fail then."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

__all__ = ["ROOT", "Mutant", "load_mutants"]

ROOT: Final = Path(__file__).parent.parent.parent


@dataclass(frozen=True, slots=True)
class Mutant:
    """A change of one module, and the tests that kill it or the argument why nothing can."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...] = ()
    equivalent: str = ""

    def __post_init__(self) -> None:
        if bool(self.tests) == bool(self.equivalent):
            raise ValueError(f"{self.name}: expected either tests or the argument why it is equivalent")

    @property
    def path(self) -> str:
        """The path of the module from the root of the repository."""
        return f"src/mangrove/{self.file}"

    def apply(self, text: str) -> str:
        """Return the text of the module with the change; raise an error unless the old text occurs once."""
        if text.count(self.old) != 1:
            raise ValueError(
                f"{self.name}: the old text occurs {text.count(self.old)} times in {self.path}, expected once; "
                "correct or delete the mutant in tests/mutants/mutants.toml"
            )
        return text.replace(self.old, self.new)


def load_mutants(only: str = "") -> list[Mutant]:
    """Return the mutants whose name or file contains `only`."""
    listed = tomllib.loads(Path(__file__).with_name("mutants.toml").read_text())["mutant"]
    mutants = [_build_mutant(fields) for fields in listed]
    return [mutant for mutant in mutants if only in mutant.name or only in mutant.file]


def _build_mutant(fields: Mapping[str, str | list[str]]) -> Mutant:
    return Mutant(**{**fields, "tests": tuple(fields.get("tests", ()))})  # type: ignore[arg-type]
