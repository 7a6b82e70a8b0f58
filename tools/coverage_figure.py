"""Writes the measured coverage into the README: `python -m tools.coverage_figure PERCENT`.

`make coverage` calls it with what `coverage report --format=total` prints.
"""

import re
import sys
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"
FIGURE = re.compile(r"\d+% of the product's lines and branches")


def with_figure(text: str, percent: int) -> str:
    """Return the README's `text` with a coverage of `percent`, 0 to 100.

    Raises ValueError where the text has no such figure, or several.
    """
    text, replaced = FIGURE.subn(f"{percent}% of the product's lines and branches", text)
    if replaced != 1:
        raise ValueError(f"README.md has {replaced} coverage figures; expected 1")
    return text


if __name__ == "__main__":
    README.write_text(with_figure(README.read_text("utf-8"), int(sys.argv[1])), "utf-8")
