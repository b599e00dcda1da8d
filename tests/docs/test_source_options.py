"""The pages about Spark and streams name every option of the format, and no other."""

import re
from pathlib import Path

from mangrove.spark import source_options

GUIDES = Path(__file__).parents[2] / "docs" / "how-to"


def test_every_option_of_the_format_is_documented() -> None:
    pages = "".join((GUIDES / f"{name}.md").read_text("utf-8") for name in ("spark", "streaming"))
    rows = re.findall(r"^\| (`.+?) \|", pages, re.MULTILINE)
    # Names of SQL statements are in upper case; options begin in lower case.
    documented = {name for row in rows for name in re.findall(r"`([a-z][A-Za-z]*)`", row)} - {"load", "save"}
    # Spark sets the checkpoint location itself.
    assert documented | {"checkpointLocation"} == set(source_options._KNOWN)
