"""Markdown from values: tables, and text that is safe inside a cell. Pure."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; `rows` have as many cells as `head`."""
    lines = [_line(head), _line(["---"] * len(head)), *(_line(row) for row in rows)]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell_text(cell) for cell in cells) + " |"


def cell_text(text: str) -> str:
    """Return text that stays in one cell of a table."""
    return text.replace("\n", " ").replace("|", "\\|").strip()


def code(text: str) -> str:
    """Return text as inline code; empty text stays empty."""
    return f"`{text}`" if text else ""
