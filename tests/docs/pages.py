"""The documentation's code blocks, and which of them run."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from textwrap import dedent

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
PAGES = [
    *sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "reference"),
    REPOSITORY / "README.md",
    REPOSITORY / "CONTRIBUTING.md",
]
_BLOCK = re.compile(
    r"(?P<skip>^ *<!-- not run: [^\n]+ -->\n)?"
    r"^(?P<indent> *)```(?P<language>[^\n`]*)\n(?P<text>.*?)^(?P=indent)```$",
    re.MULTILINE | re.DOTALL,
)
_RUNNABLE = ("bash", "python")


@dataclass(frozen=True, slots=True)
class CodeBlock:
    """One fenced block of a page; `runs` is False where a comment above it says why not."""

    page: str
    language: str
    text: str
    runs: bool


def code_blocks(page: Path) -> Iterator[CodeBlock]:
    """Yield the bash and Python blocks of a page, in order; those of lists without their indent."""
    for match in _BLOCK.finditer(page.read_text()):
        if match["language"] in _RUNNABLE:
            name = str(page.relative_to(REPOSITORY))
            yield CodeBlock(name, match["language"], dedent(match["text"]), match["skip"] is None)


def other_code(page: Path) -> Iterator[str]:
    """Yield the lines of a page's other blocks, fenced or indented by four spaces."""
    text = page.read_text()
    for match in _BLOCK.finditer(text):
        if match["language"] not in _RUNNABLE:
            yield from dedent(match["text"]).splitlines()
    indented = re.findall(r"^    .*$", _BLOCK.sub("", text), re.MULTILINE)
    yield from map(str.strip, indented)


def runnable_blocks() -> list[CodeBlock]:
    """Return what a reader runs: quickstart, guides, operations, and quickstart's last block."""
    quickstart = [block for block in code_blocks(DOCS / "quickstart.md") if block.runs]
    pages = [*sorted((DOCS / "howto").glob("*.md")), DOCS / "operations.md"]
    others = [block for page in pages for block in code_blocks(page) if block.runs]
    return [*quickstart[:-1], *others, quickstart[-1]]
