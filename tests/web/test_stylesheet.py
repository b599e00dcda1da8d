"""The explorer's colours can be read, in light and in dark."""

import re
from itertools import product
from pathlib import Path

import pytest

from mangrove.web import routes

PAIRS = [
    *product(("ink", "quiet", "accent"), ("ground", "sheet")),
    ("accent", "accent-ground"), ("accent", "good-ground"), ("bad", "bad-ground"), ("bad", "sheet"),
    ("warn", "warn-ground"), ("sheet", "accent"),
]  # fmt: skip
CONTRAST_MIN = 4.5


def palettes() -> dict[str, dict[str, str]]:
    """Return the named colours of each mode."""
    css = (Path(routes.__file__).with_name("static") / "explorer.css").read_text("utf-8")
    light, dark = (
        dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", block))
        for block in re.findall(r":root \{(.*?)\}", css, re.DOTALL)
    )
    return {"light": light, "dark": dark}


def luminance(colour: str) -> float:
    """Return how bright a colour is, as the accessibility guidelines count it."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("mode", ["light", "dark"])
@pytest.mark.parametrize(("text", "ground"), PAIRS)
def test_text_has_sufficient_contrast(mode: str, text: str, ground: str) -> None:
    palette = palettes()[mode]
    lighter, darker = sorted((luminance(palette[text]), luminance(palette[ground])), reverse=True)
    assert (lighter + 0.05) / (darker + 0.05) >= CONTRAST_MIN
