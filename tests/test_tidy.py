"""The habits of this repository that a program can check, each shown to fail on a small bad example."""

import ast
import importlib.util
import re
import subprocess
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
LINES_MAX = 800
FUNCTION_LINES_MAX = 50

LONG_MODULES: dict[str, str] = {}
"""Why a module may be longer than the bound: its path, and the reason in a sentence."""

LONG_FUNCTIONS: dict[str, str] = {}
"""Why a function may be longer than the bound: `path:name`, and the reason in a sentence."""

GRAB_BAGS = frozenset({"base", "common", "helper", "helpers", "impl", "manager", "misc", "util", "utils"})
DECISION_PARTS = ["Problem", "Decision", "Rejected", "Consequences"]

LAZY_IMPORTS = {
    "src/mangrove/__init__.py": "%load_ext imports the notebook extension, which is above the composition root",
    "src/mangrove/wiring.py": "the composition root",
}
"""Where a function may import a module of the package, with the reason."""
REPLACED_NAMES = re.compile(
    r"(?:^|_)(?:told|tells?|wanted|asked|asking|strangers?|rivals?|contest(?:ed)?|kept|sight|mentions|splices|nearness"
    r"|anew|upkeep|heeded|left_behind|taking_back|moments|showing|shown|placing|hidden|hiding)(?:_|$)"
)
REPLACED_PROSE = re.compile(
    r"\b(?:anew|told|strangers?|rivals?|upkeep|wanted rows|tells? (?:it )?again|lies (?:in|on|at|below|there)|of ours"
    r"|in words of)\b",
    re.IGNORECASE,
)
"""Words that docs/glossary.md replaces by established terms."""
REPLACED_TEXT = re.compile(r"\b(?:told|anew|rivals?|strangers?|upkeep|heed(?:s|ed)?)\b", re.IGNORECASE)
"""Those of them that no docstring and no message needs."""
REPLACED_IDENTIFIERS = re.compile(
    r"(?:^|_)(?:told|wanted|asked|said|anew|rivals?|strangers?|upkeep|heed(?:s|ed)?)(?:_|$)"
)
"""Those of them that no variable, parameter or private function needs."""

# Written in pieces so that this file passes its own checks.
UNFINISHED = re.compile(r"\b(?:" + "|".join(["TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error"]) + r")\b")
MACHINE = re.compile(r"(?<![\w./~-])/(?:" + "|".join(["root", "work", "home", "Users"]) + r")/[\w.]")
REGISTRY = re.compile("|".join([r"py" + r"pi\.org", r"python" + r"hosted", r"npm" + r"js\.", r"maven" + r"\.org"]))


@dataclass(frozen=True)
class Source:
    """A file: its path from the root of the repository, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The parsed module."""
        return ast.parse(self.text)

    @property
    def docstring(self) -> str:
        return ast.get_docstring(self.tree) or ""


Checker = Callable[[list[Source]], Iterable[str]]


def opening_sentences(sources: list[Source]) -> Iterable[str]:
    """Each module opens with one sentence that ends in a full stop, and no two open alike."""
    openings = {source.path: source.docstring.partition("\n") for source in sources}
    for path, (first, _, rest) in openings.items():
        if not first.endswith(".") or re.search(r"[.!?]\s", first):
            yield f"{path}: open with one sentence, on one line, that ends in a full stop"
        if rest and not rest.startswith("\n"):
            yield f"{path}: leave a blank line after the opening sentence"
    counts = Counter(first for first, _, _ in openings.values())
    for path, (first, _, _) in openings.items():
        if counts[first] > 1:
            yield f"{path}: another module opens with the same sentence; say how they differ"


def grab_bag_names(sources: list[Source]) -> Iterable[str]:
    """No module and no class has a name under which anything could be put."""
    for source in sources:
        names = [
            source.path,
            *(node.name for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)),
        ]
        for name in names:
            words = re.findall(r"[A-Z]?[a-z]+", name.removesuffix(".py"))
            for word in GRAB_BAGS.intersection(map(str.lower, words)):
                yield f"{source.path}: {name!r} says {word!r}; name it after what it does"


def replaced_words(sources: list[Source]) -> Iterable[str]:
    """Names and opening sentences use the established terms of docs/glossary.md."""
    for source in sources:
        tree = source.tree
        names = [Path(source.path).stem]
        names += [node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        for name in names:
            snake = re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
            if not name.startswith("_") and REPLACED_NAMES.search(snake):
                yield f"{source.path}: {name!r} has an established term; see docs/glossary.md"
        if match := REPLACED_PROSE.search(source.docstring.partition("\n")[0]):
            yield f"{source.path}: the opening sentence says {match[0]!r}; see docs/glossary.md"


def replaced_texts(sources: list[Source]) -> Iterable[str]:
    """Docstrings, messages and all names use the established terms of docs/glossary.md."""
    for source in sources:
        for node in ast.walk(source.tree):
            match node:
                case ast.Constant(value=str(text)):
                    found = REPLACED_TEXT.search(text)
                case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.MatchAs(name=str(name)):
                    found = REPLACED_IDENTIFIERS.search(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                    found = REPLACED_IDENTIFIERS.search(name)
                case _:
                    continue
            if found:
                yield f"{source.path}:{node.lineno}: {found[0]!r} has an established term; see docs/glossary.md"


def repeated_class_names(sources: list[Source]) -> Iterable[str]:
    """No two public classes have the same name."""
    places: dict[str, list[str]] = {}
    for source in sources:
        for node in source.tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(source.path)
    for name, paths in places.items():
        if len(paths) > 1:
            yield f"{', '.join(paths)}: each has a public class {name}; rename all but one"


def function_level_imports(sources: list[Source], allowed: Mapping[str, str] = LAZY_IMPORTS) -> Iterable[str]:
    """Modules of the package are imported at the top; only LAZY_IMPORTS may import them inside functions."""
    for source in sources:
        if source.path in allowed:
            continue
        functions = [node for node in ast.walk(source.tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
        for node in (inner for function in functions for inner in ast.walk(function)):
            match node:
                case ast.ImportFrom(module=str(name)) | ast.Import(names=[ast.alias(name=name), *_]):
                    if name.partition(".")[0] == "mangrove":
                        yield f"{source.path}:{node.lineno}: import {name} at the top of the module"


def long_modules(sources: list[Source]) -> Iterable[str]:
    """A module over the bound is two ideas, or has a reason in LONG_MODULES."""
    for source in sources:
        if source.text.count("\n") > LINES_MAX and source.path not in LONG_MODULES:
            yield f"{source.path}: over {LINES_MAX} lines; is it two ideas? Else give the reason in LONG_MODULES"


def long_functions(sources: list[Source]) -> Iterable[str]:
    """A function over the bound, its docstring aside, does two things, or has a reason in LONG_FUNCTIONS."""
    for source in sources:
        for node in ast.walk(source.tree):
            if isinstance(node, ast.FunctionDef) and f"{source.path}:{node.name}" not in LONG_FUNCTIONS:
                lines = (node.end_lineno or 0) - node.lineno + 1 - len((ast.get_docstring(node) or "").splitlines())
                if lines > FUNCTION_LINES_MAX:
                    yield f"{source.path}: {node.name} has {lines} lines; does it do two things?"


def exclusive_creates(sources: list[Source]) -> Iterable[str]:
    """One `create` decides a transaction, so it is called only by a layout's commit and by the stores."""
    allowed = re.compile(r"src/mangrove/(?:layouts/\w+/commit\.py|storage/.*|testing/.*)")
    for source in sources:
        if allowed.fullmatch(source.path):
            continue
        for node in ast.walk(source.tree):
            match node:
                case ast.Call(ast.Attribute(attr="create") | ast.Name("create_and_verify")):
                    yield f"{source.path}:{node.lineno}: `.create(` belongs to a layout's commit.py and to the stores"


def incomplete_exports(sources: list[Source]) -> Iterable[str]:
    """`__all__` names every public thing that a module makes, and nothing that is not there."""
    for source in sources:
        made, imported, exported = _names(source.tree)
        if missing := {name for name in made if not name.startswith("_")} - set(exported):
            yield f"{source.path}: `__all__` lacks {sorted(missing)}; add them or begin them with `_`"
        if absent := set(exported) - made - imported:
            yield f"{source.path}: `__all__` names {sorted(absent)}, which the module does not have"
        if len(set(exported)) < len(exported):
            yield f"{source.path}: `__all__` names something twice"


def _names(module: ast.Module) -> tuple[set[str], set[str], list[str]]:
    made: set[str] = set()
    imported: set[str] = set()
    exported: list[str] = []
    statements = list(module.body)
    for node in statements:
        match node:
            case ast.If(body=body, orelse=otherwise):
                # Appended while the loop runs: what one platform or another makes is made at the top too.
                statements += [*body, *otherwise]
            case ast.Try(body=body, handlers=handlers):
                # So is what a module takes from a package, or makes where the package does not have it.
                statements += [*body, *(one for handler in handlers for one in handler.body)]
            case ast.Assign(targets=[ast.Name("__all__")], value=value):
                exported = ast.literal_eval(value)
            case ast.Assign(value=ast.Call(func=ast.Name("TypeVar" | "ParamSpec"))):
                pass  # a place-holder of annotations, which nobody imports
            case ast.Import(names) | ast.ImportFrom(names=names):
                imported |= {alias.asname or alias.name for alias in names}
            case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                made.add(name)
            case ast.Assign(targets=targets):
                made |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(name)):
                made.add(name)
    return made, imported, exported


def error_tree(sources: list[Source]) -> Iterable[str]:
    """The tree in the docstring of errors.py shows the classes in their order, below their base."""
    for source in sources:
        drawn = re.findall(r"^ *(?:[├└]── )?(\w+Error)\b", source.docstring, re.MULTILINE)
        classes = [node for node in source.tree.body if isinstance(node, ast.ClassDef)]
        if drawn != [node.name for node in classes]:
            yield f"{source.path}: the docstring draws {drawn}, the classes are {[node.name for node in classes]}"
        for node in classes[1:]:
            if [ast.unparse(parent) for parent in node.bases] != [classes[0].name]:
                yield f"{source.path}: {node.name} is drawn below {classes[0].name} but does not derive from it"


def unfinished_work(sources: list[Source]) -> Iterable[str]:
    """What is not done is an issue, not a note in a file."""
    for source, number, match in _matches(sources, UNFINISHED):
        yield f"{source.path}:{number}: {match!r}; finish it, or open an issue"


def foreign_addresses(sources: list[Source]) -> Iterable[str]:
    """No file names a folder of somebody's machine or the host of a package registry."""
    for pattern in (MACHINE, REGISTRY):
        for source, number, match in _matches(sources, pattern):
            yield f"{source.path}:{number}: {match!r} exists only on some machines; leave it out"


def _matches(sources: list[Source], pattern: re.Pattern[str]) -> Iterable[tuple[Source, int, str]]:
    for source in sources:
        for number, line in enumerate(source.text.splitlines(), start=1):
            if match := pattern.search(line):
                yield source, number, match[0]


def decision_pages(sources: list[Source]) -> Iterable[str]:
    """Each decision page has a number of its own and its four parts in order."""
    numbers = Counter(Path(source.path).name[:4] for source in sources)
    for source in sources:
        name = Path(source.path).name
        if not re.fullmatch(r"[0-9]{4}-[a-z0-9-]+\.md", name) or numbers[name[:4]] > 1:
            yield f"{source.path}: a page is called NNNN-some-title.md, with a number that no other page has"
        if re.findall(r"^## (.+)$", source.text, re.MULTILINE) != DECISION_PARTS:
            yield f"{source.path}: the headings of a decision are {DECISION_PARTS}, in this order"


def unpinned_requirements(sources: list[Source]) -> Iterable[str]:
    """Every entry of the lock has a version and a hash; nothing says where it came from."""
    for source in sources:
        for entry in re.split(r"\n(?=\S)", source.text.replace("\\\n", "").strip()):
            if not entry.startswith("#") and not re.match(r"[\w.\[\]-]+==\S+( ;[^#]*?)? +--hash=sha256:", entry):
                yield f"{source.path}: {entry[:60]!r} has no version with hashes; run: make lock"
        if "://" in source.text:
            yield f"{source.path}: an address is in the lock; run: make lock"


def _read(paths: Iterable[Path]) -> list[Source]:
    return [Source(path.relative_to(ROOT).as_posix(), path.read_text("utf-8")) for path in sorted(paths)]


@cache
def _modules() -> list[Source]:
    return [source for source in _read((ROOT / "src").rglob("*.py")) if not source.path.endswith("_pb2.py")]


@cache
def _texts() -> list[Source]:
    """Every text file of the repository: what git tracks and what it would."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=False,
        text=True,
    )
    if listed.returncode:
        pytest.skip("this is no git checkout, so there is no telling which files belong to it")
    paths = [ROOT / name for name in listed.stdout.split("\0") if name]
    return _read(path for path in paths if path.is_file() and b"\0" not in path.read_bytes() and _is_utf8(path))


def _is_utf8(path: Path) -> bool:
    try:
        path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


CHECKS: list[tuple[Checker, Callable[[], list[Source]]]] = [
    (opening_sentences, _modules),
    (grab_bag_names, _modules),
    (replaced_words, _modules),
    (replaced_texts, _modules),
    (repeated_class_names, _modules),
    (function_level_imports, _modules),
    (long_modules, _modules),
    (long_functions, _modules),
    (exclusive_creates, _modules),
    (incomplete_exports, _modules),
    (error_tree, lambda: _read([ROOT / "src/mangrove/errors.py"])),
    (unfinished_work, _texts),
    (foreign_addresses, _texts),
    (decision_pages, lambda: _read(set((ROOT / "docs/decisions").glob("*")) - {ROOT / "docs/decisions/index.md"})),
    (unpinned_requirements, lambda: _read([ROOT / "requirements.lock"])),
]

M = "src/mangrove/tables/scan.py"
FOUR_PARTS = "".join(f"## {part}\n" for part in DECISION_PARTS)
SPOILED: list[tuple[Checker, list[Source]]] = [
    (opening_sentences, [Source(M, "x = 1\n")]),
    (opening_sentences, [Source(M, '"""Reads rows"""\n')]),
    (opening_sentences, [Source(M, '"""Reads rows. Writes them too."""\n')]),
    (opening_sentences, [Source(M, '"""Reads rows.\nQuickly."""\n')]),
    (opening_sentences, [Source("a.py", '"""Reads rows."""\n'), Source("b.py", '"""Reads rows."""\n')]),
    (grab_bag_names, [Source("src/mangrove/tables/path_utils.py", "")]),
    (grab_bag_names, [Source("src/mangrove/common/scan.py", "")]),
    (grab_bag_names, [Source(M, "class ScanManager: ...\n")]),
    (replaced_words, [Source("src/mangrove/tables/hiding.py", '"""Delete modes."""\n')]),
    (replaced_words, [Source(M, '"""Scan plans."""\ndef told_files(): ...\n')]),
    (replaced_words, [Source(M, '"""Scan plans."""\nclass FoundHidden: ...\n')]),
    (replaced_words, [Source(M, '"""Rewrites a log anew."""\n')]),
    (replaced_texts, [Source(M, 'def scan():\n    """Read the files anew."""\n')]),
    (replaced_texts, [Source(M, 'raise ValueError(f"{name} lost against a rival")\n')]),
    (replaced_texts, [Source(M, "told = 1\n")]),
    (replaced_texts, [Source(M, "def scan(wanted): ...\n")]),
    (replaced_texts, [Source(M, "def _said(): ...\n")]),
    (repeated_class_names, [Source("a.py", "class Page: ...\n"), Source("b.py", "class Page: ...\n")]),
    (function_level_imports, [Source(M, "def scan():\n    from mangrove.local import engine\n")]),
    (function_level_imports, [Source(M, "def scan():\n    import mangrove.local\n")]),
    (long_modules, [Source(M, "\n" * (LINES_MAX + 1))]),
    (long_functions, [Source(M, "def f():\n" + "    g()\n" * FUNCTION_LINES_MAX)]),
    (exclusive_creates, [Source(M, "effects.store.create(path, data)\n")]),
    (exclusive_creates, [Source("src/mangrove/layouts/tree/versions.py", "store.create(path, data)\n")]),
    (exclusive_creates, [Source("src/mangrove/layouts/tree/versions.py", "create_and_verify(create, is_own)\n")]),
    (incomplete_exports, [Source(M, "__all__ = []\ndef scan(): ...\n")]),
    (incomplete_exports, [Source(M, "LIMIT: int = 3\n")]),
    (incomplete_exports, [Source(M, "if linux:\n    def scan(): ...\nelse:\n    def scan(): ...\n")]),
    (incomplete_exports, [Source(M, '__all__ = ["scan"]\n')]),
    (incomplete_exports, [Source(M, '__all__ = ["scan", "scan"]\ndef scan(): ...\n')]),
    (error_tree, [Source(M, '"""Errors.\n\n    AError\n    └── BError   b\n"""\nclass AError(Exception): ...\n')]),
    (
        error_tree,
        [Source(M, '"""E.\n\n    AError\n    └── BError\n"""\nclass AError: ...\nclass BError(Exception): ...\n')],
    ),
    (unfinished_work, [Source("docs/page.md", "TO" + "DO: say more\n")]),
    (unfinished_work, [Source(M, "raise NotImplemented" + "Error\n")]),
    (foreign_addresses, [Source("docs/page.md", "see `/ro" + "ot/.cache`\n")]),
    (foreign_addresses, [Source("Makefile", "cd /wo" + "rk/main\n")]),
    (foreign_addresses, [Source("requirements.lock", "--index-url https://py" + "pi.org/simple\n")]),
    (decision_pages, [Source("docs/decisions/0001-a.md", "## Problem\n## Decision\n## Consequences\n")]),
    (decision_pages, [Source("docs/decisions/notes.md", FOUR_PARTS)]),
    (decision_pages, [Source("docs/decisions/0001-a.md", FOUR_PARTS), Source("docs/decisions/0001-b.md", FOUR_PARTS)]),
    (unpinned_requirements, [Source("requirements.lock", "a==1 \\\n    --hash=sha256:00\nb>=2\n")]),
    (unpinned_requirements, [Source("requirements.lock", "a==1\n    # via b\n")]),
    (unpinned_requirements, [Source("requirements.lock", "a==1 \\\n    --hash=sha256:00\n# from https://example\n")]),
]


@pytest.mark.parametrize(("checker", "sources"), CHECKS, ids=[checker.__name__ for checker, _ in CHECKS])
def test_the_repository_follows_the_rule(checker: Checker, sources: Callable[[], list[Source]]) -> None:
    problems = list(checker(sources()))
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize(("checker", "sources"), SPOILED, ids=[checker.__name__ for checker, _ in SPOILED])
def test_a_violated_rule_is_detected(checker: Checker, sources: list[Source]) -> None:
    assert list(checker(sources)) != []


def test_every_rule_has_a_failing_example() -> None:
    assert {checker for checker, _ in CHECKS} == {checker for checker, _ in SPOILED}


def test_every_module_with_lazy_imports_has_some() -> None:
    lazy = {problem.partition(":")[0] for problem in function_level_imports(_modules(), allowed={})}
    assert set(LAZY_IMPORTS) == lazy


def test_every_exemption_from_the_length_limit_is_needed() -> None:
    modules = _modules()
    long = {source.path for source in modules if source.text.count("\n") > LINES_MAX}
    named = {f"{s.path}:{n.name}" for s in modules for n in ast.walk(s.tree) if isinstance(n, ast.FunctionDef)}
    assert set(LONG_MODULES) <= long
    assert set(LONG_FUNCTIONS) <= named


def test_the_lock_file_pins_every_dependency() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    requested = [
        *project["project"]["dependencies"],
        *(name for extra in project["project"]["optional-dependencies"].values() for name in extra),
        *project["dependency-groups"]["dev"],
    ]
    pinned = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    assert {re.split(r"[^\w.-]", name)[0] for name in requested} - set(pinned) == set()


@pytest.fixture(scope="module")
def map_script() -> ModuleType:
    """The script docs/map.py, which lies in no package."""
    spec = importlib.util.spec_from_file_location("map_script", ROOT / "docs/map.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_module_map_is_up_to_date(map_script: ModuleType) -> None:
    page = (ROOT / "docs/ARCHITECTURE.md").read_text("utf-8")
    assert page == map_script.with_map(page, map_script.module_map(ROOT / "src/mangrove")), "run: make docs"


def test_the_module_map_is_outdated_after_a_new_module(map_script: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "__init__.py").write_text('"""A package."""\n')
    page = f"# Map\n{map_script.BEGIN}{map_script.END}The end.\n"
    old = map_script.with_map(page, map_script.module_map(tmp_path))
    assert old == map_script.with_map(old, map_script.module_map(tmp_path))
    (tmp_path / "rows.py").write_text('"""Reads rows.\n\nQuickly.\n"""\n')
    new = map_script.with_map(old, map_script.module_map(tmp_path))
    assert new != old
    assert f"* `{tmp_path.name}/rows.py`: Reads rows.\n" in new
