"""The documentation's code blocks, and which of them run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
_BLOCK = re.compile(
    r"(?P<skip><!-- not run: [^\n]+ -->\n)?^```(?P<language>bash|python)\n(?P<text>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One fenced block of a page; `runs` is False where a comment above it says why not."""

    page: str
    language: str
    text: str
    runs: bool


def code_blocks(page: Path) -> Iterator[CodeBlock]:
    """Yield the bash and Python blocks of a page, in order."""
    for match in _BLOCK.finditer(page.read_text()):
        name = str(page.relative_to(REPOSITORY))
        yield CodeBlock(name, match["language"], match["text"], match["skip"] is None)


def runnable_blocks() -> list[CodeBlock]:
    """Return what a reader runs: quickstart, then every guide, and quickstart's last block."""
    quickstart = [block for block in code_blocks(DOCS / "quickstart.md") if block.runs]
    guides = [
        block
        for page in sorted((DOCS / "howto").glob("*.md"))
        for block in code_blocks(page)
        if block.runs
    ]
    return [*quickstart[:-1], *guides, quickstart[-1]]
