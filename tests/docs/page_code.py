"""The code of a page of the documentation, taken out of its fences and run in order.

    ```python     with >>> a doctest, else run as a module would be
    ```console    lines after "$ " are commands of a shell, the others what they print; "..." stands for anything
    ```sh         a script that must end well; `pip install` in the first block names the packages of the environment
    ```sql        statements that the page's lakehouse runs as one script
    ```json, ```toml    must be readable
    ```pyi        signatures, must be readable
    ```text       is no code

All blocks of a page share one folder, one namespace and one shell environment, so
a page is tried as a reader would follow it. This module needs nothing but Python: as
`python page_code.py PAGE [LANGUAGE …]` it runs a page in the working directory, with
the packages of that Python.
"""

import ast
import doctest
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

_FENCE = re.compile(
    r"^(?P<indent> *)```(?P<language>[a-z]+)[^\n]*\n(?P<code>.*?)^(?P=indent)```$", re.MULTILINE | re.DOTALL
)
_INSTALL = "pip install "
_NEEDS = re.compile(r"<!-- needs: ([a-z0-9 ]+) -->")
_FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@dataclass(frozen=True)
class Block:
    """One fenced block, and the line of the page on which its code begins."""

    language: str
    code: str
    line: int

    @property
    def is_install_line(self) -> bool:
        """Whether the block names what the page needs, instead of being run."""
        return self.code.startswith(_INSTALL)


def blocks_of(page: str) -> list[Block]:
    """Return the blocks of a page in order."""
    return [
        Block(
            found["language"],
            "".join(line.removeprefix(found["indent"]) for line in found["code"].splitlines(keepends=True)),
            page.count("\n", 0, found.start("code")) + 1,
        )
        for found in _FENCE.finditer(page)
    ]


def needs_of(page: str) -> frozenset[str]:
    """Return which servers a page says that it needs: s3."""
    return frozenset(word for found in _NEEDS.finditer(page) for word in found[1].split())


def requirements_of(page: str) -> tuple[str, ...]:
    """Return what a page tells its reader to install, the bare package where it has no install line.

    >>> requirements_of('```sh\\npip install "mangrove-lake[spark]" deltalake\\n```\\n')
    ('mangrove-lake[spark]', 'deltalake')
    """
    lines = [line for block in blocks_of(page) for line in block.code.splitlines() if line.startswith(_INSTALL)]
    if not lines:
        return ("mangrove-lake",)
    first = blocks_of(page)[0]
    if [first.language, first.code.splitlines()] != ["sh", lines]:
        raise ValueError("a page has one install line, alone in its first block, which is one of sh")
    return tuple(shlex.split(lines[0].removeprefix(_INSTALL)))


@dataclass
class Reader:
    """Somebody who follows one page in an empty folder."""

    page: Path
    folder: Path
    environment: Mapping[str, str]
    names: dict[str, object] = field(default_factory=dict)

    def follow(self, languages: Collection[str] = ()) -> int:
        """Run every block, or those of some languages, and return how many were run."""
        run: dict[str, Callable[[Block], object]] = {
            "python": self._python,
            "console": self._console,
            "sh": self._script,
            "sql": self._statements,
            "json": lambda block: json.loads(block.code),
            "toml": _read_toml,
            "pyi": lambda block: ast.parse(block.code),
            "text": lambda block: None,
        }
        blocks = [
            block
            for block in blocks_of(self.page.read_text("utf-8"))
            if (not languages or block.language in languages) and not block.is_install_line
        ]
        for block in blocks:
            assert block.language in run, f"{self._place(block)}: nobody runs a block of {block.language!r}"
            run[block.language](block)
        return sum(block.language != "text" for block in blocks)

    def _place(self, block: Block) -> str:
        return f"{self.page.name}:{block.line}"

    def _python(self, block: Block) -> None:
        if ">>>" not in block.code:
            exec(compile("\n" * (block.line - 1) + block.code, str(self.page), "exec"), self.names)
            return
        test = doctest.DocTestParser().get_doctest(
            block.code, self.names, self.page.name, str(self.page), block.line - 1
        )
        said: list[str] = []
        runner = doctest.DocTestRunner(optionflags=_FLAGS)
        runner.run(test, out=said.append, clear_globs=False)
        # The runner works on a copy of the names.
        self.names.update(test.globs)
        assert not runner.failures, "".join(said)

    def _console(self, block: Block) -> None:
        for part in re.split(r"^\$ ", block.code, flags=re.MULTILINE)[1:]:
            command, _, wanted = part.partition("\n")
            while command.endswith("\\"):
                more, _, wanted = wanted.partition("\n")
                command = f"{command[:-1]}{more.removeprefix('>').strip()}"
            found = self._shell(command)
            got = found.stdout + found.stderr
            assert doctest.OutputChecker().check_output(wanted.strip() + "\n", got.strip() + "\n", _FLAGS), (
                f"{self._place(block)}: `{command}` printed\n{got}\nand not\n{wanted}"
            )

    def _script(self, block: Block) -> None:
        found = self._shell(block.code)
        assert found.returncode == 0, f"{self._place(block)}: {found.stdout}{found.stderr}"

    def _shell(self, command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["bash", "-euo", "pipefail", "-c", command],
            cwd=self.folder,
            env={
                **self.environment,
                "PATH": f"{Path(sys.executable).parent}{os.pathsep}{self.environment['PATH']}",
                "COLUMNS": "100",
                "NO_COLOR": "1",
            },
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def _statements(self, block: Block) -> None:
        lake = self.names.get("lake")
        assert lake is not None, f"{self._place(block)}: a page with SQL opens `lake` first"
        lake.sql(block.code)  # type: ignore[attr-defined]


def _read_toml(block: Block) -> None:
    tomllib.loads(block.code)


if __name__ == "__main__":
    if not Reader(Path(sys.argv[1]), Path.cwd(), os.environ).follow(sys.argv[2:]):
        raise SystemExit(f"{sys.argv[1]}: no block was run")
