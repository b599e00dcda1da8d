"""Write the map of modules into docs/ARCHITECTURE.md, from the first line of each module.

Run by `make docs`; with `--check` nothing is written, and an outdated map is an
error. Generated protobuf code is left out: it has no words of its own.
"""

import argparse
import ast
import sys
from pathlib import Path

__all__ = ["module_map", "with_map"]

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "ARCHITECTURE.md"
BEGIN = "<!-- The map: written by `make docs`, not by hand. -->\n"
END = "<!-- The map ends here. -->\n"


def module_map(source: Path) -> str:
    """Return one line for each module below the package folder `source`, in the order of their names."""
    lines = []
    for path in sorted(source.rglob("*.py"), key=lambda path: path.relative_to(source).with_suffix("").parts):
        if path.name.endswith("_pb2.py"):
            continue
        sentence = (ast.get_docstring(ast.parse(path.read_text("utf-8"))) or "").partition("\n")[0]
        name = path.relative_to(source.parent).as_posix().removesuffix("__init__.py")
        lines.append(f"* `{name}`: {sentence}\n")
    return "".join(lines)


def with_map(page: str, fresh: str) -> str:
    """Return `page` with what lies between its two markers replaced by `fresh`."""
    before, _, rest = page.partition(BEGIN)
    _, found, after = rest.partition(END)
    if not found:
        raise SystemExit(f"docs/ARCHITECTURE.md needs these two lines, in this order:\n{BEGIN}{END}")
    return f"{before}{BEGIN}\n{fresh}\n{END}{after}"


def main() -> None:
    """Write the page, or only compare."""
    parser = argparse.ArgumentParser(description="Write the map of modules into docs/ARCHITECTURE.md.")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the map is out of date")
    only_check = parser.parse_args().check
    page = PAGE.read_text("utf-8")
    fresh = with_map(page, module_map(ROOT / "src" / "mangrove"))
    if fresh == page:
        return
    if only_check:
        sys.exit("The map in docs/ARCHITECTURE.md is out of date; run: make docs")
    PAGE.write_text(fresh, "utf-8")


if __name__ == "__main__":
    main()
