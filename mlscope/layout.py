"""Rows of text as an aligned table, made to fit a width where it can. Pure."""

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

from mlscope.shortening import at_end, least_size, shortened, width

_WIDE_GAP, _NARROW_GAP = 2, 1
_LEAST = 8
"""Columns of text are cut to no less."""
_MOST_FOLDED = 36
"""Columns of text that go on in further lines are no wider."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table in lines: those of its heading, then one a row."""

    head: list[str]
    body: list[str]


def laid_out(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    to_right: Sequence[bool],
    fit: int = 0,
) -> Layout:
    """Return an aligned table of at most `fit` terminal columns where it can be so (0: any width).

    What is too wide gets headings of several lines, then narrow gaps, then shorter texts: those of
    columns that tell rows apart last, and so that they still do where it can be; never numbers.
    """
    stacks, gap = [[head] for head in heads], _WIDE_GAP
    widths = _widths(stacks, rows)
    if fit and _total(widths, gap) > fit:
        stacks = [
            _stacked(head, size)
            for head, size in zip(heads, _widths([()] * len(heads), rows), strict=True)
        ]
        widths = _widths(stacks, rows)
    if fit and _total(widths, gap) > fit:
        gap = _NARROW_GAP
        widths = _cut(widths, stacks, rows, to_right, fit)
        rows = _shortened(rows, widths)
    height = max(map(len, stacks), default=0)
    padded = [[""] * (height - len(stack)) + stack for stack in stacks]
    shown_heads = list(zip_longest(*padded, fillvalue=""))
    return Layout(
        [_line(each, widths, to_right, gap) for each in shown_heads],
        [_line(each, widths, to_right, gap) for each in rows],
    )


def folded(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    to_right: Sequence[bool],
    fit: int = 0,
) -> Layout:
    """Return an aligned table whose long texts go on in further lines: nothing of them is cut.

    At most `fit` terminal columns where it can be so (0: any width); the widest texts become
    narrower first, and never numbers. The first column, which names the row, is never folded: it
    is cut where it takes more than half of `fit`.
    """
    if fit and rows:
        names = shortened([row[0] for row in rows], max(fit // 2, _LEAST))
        rows = [(name, *row[1:]) for name, row in zip(names, rows, strict=True)]
    is_kept = [place == 0 or right for place, right in enumerate(to_right)]
    sizes = _widths([()] * len(heads), rows)
    sizes = [s if kept else min(s, _MOST_FOLDED) for s, kept in zip(sizes, is_kept, strict=True)]
    stacks = [_stacked(head, size) for head, size in zip(heads, sizes, strict=True)]
    widths = [max(s, *map(width, stack)) for s, stack in zip(sizes, stacks, strict=True)]
    gap = _WIDE_GAP
    for words in (_longest_words(rows, len(heads)), [0] * len(heads)):
        least = [
            s if kept else max(_LEAST, w) for s, kept, w in zip(widths, is_kept, words, strict=True)
        ]
        if fit and _total(least, gap) > fit:
            gap = _NARROW_GAP
        widths = _narrowed(widths, least, fit, gap) if fit else widths
    height = max(map(len, stacks), default=0)
    padded = zip_longest(*([""] * (height - len(each)) + each for each in stacks), fillvalue="")
    return Layout(
        [_line(each, widths, to_right, gap) for each in padded],
        [line for row in rows for line in _folded_row(row, widths, to_right, gap)],
    )


def _longest_words(rows: Sequence[Sequence[str]], columns: int) -> list[int]:
    """Return the width of each column's longest word."""
    return [
        max((width(word) for row in rows for word in row[place].split()), default=0)
        for place in range(columns)
    ]


def _narrowed(widths: Sequence[int], least: Sequence[int], fit: int, gap: int) -> list[int]:
    """Return widths that fit where they can, the widest made narrower first."""
    found = list(widths)
    while _total(found, gap) > fit:
        free = [place for place, size in enumerate(found) if size > least[place]]
        if not free:
            break
        found[max(free, key=lambda place: found[place])] -= 1
    return found


def _folded_row(
    row: Sequence[str], widths: Sequence[int], to_right: Sequence[bool], gap: int
) -> list[str]:
    cells = [
        textwrap.wrap(cell, size, break_on_hyphens=False) or [""]
        for cell, size in zip(row, widths, strict=True)
    ]
    lines = zip_longest(*cells, fillvalue="")
    return [_line(each, widths, to_right, gap) for each in lines]


def wrapped(text: str, fit: int = 0) -> list[str]:
    """Return a text in lines of at most `fit` columns, one line for 0; words stay whole."""
    lines = textwrap.wrap(text, fit, break_long_words=False, break_on_hyphens=False) if fit else []
    return lines or [text]


def _stacked(head: str, size: int) -> list[str]:
    """Return a heading in lines about as wide as the cells below it."""
    lines: list[str] = []
    for word in head.split("_"):
        joined = f"{lines[-1]}_{word}" if lines else word
        if lines and width(joined) <= size:
            lines[-1] = joined
        else:
            lines.append(word)
    return lines


def _widths(stacks: Sequence[Sequence[str]], rows: Sequence[Sequence[str]]) -> list[int]:
    columns = zip(stacks, zip_longest(*rows), strict=True) if rows else [(s, ()) for s in stacks]
    return [
        max((width(text or "") for text in (*stack, *cells)), default=0) for stack, cells in columns
    ]


def _total(widths: Sequence[int], gap: int) -> int:
    return sum(widths) + gap * (len(widths) - 1)


def _cut(
    widths: Sequence[int],
    stacks: Sequence[Sequence[str]],
    rows: Sequence[Sequence[str]],
    to_right: Sequence[bool],
    fit: int,
) -> list[int]:
    """Return widths with columns of text narrower, to fit `fit` if they can.

    Those that tell rows apart are cut last, at first to widths at which they still do.
    """
    columns = [[row[place] for row in rows] for place in range(len(widths))]
    texts = [place for place, right in enumerate(to_right) if not right]
    order = sorted(texts, key=lambda place: (len(set(columns[place])), -place))
    floors = {place: max(_LEAST, *map(width, stacks[place])) for place in order}
    telling = {place: least_size(columns[place], floors[place]) for place in order}
    cut = list(widths)
    for least in (telling, floors):
        for place in order:
            excess = max(0, _total(cut, _NARROW_GAP) - fit)
            cut[place] -= min(excess, max(0, cut[place] - least[place]))
    return cut


def least_widths(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    to_right: Sequence[bool],
    fit: int,
) -> list[int]:
    """Return the terminal columns that each column needs at least, for people to use it.

    Numbers are whole. The text that tells most rows apart still does so, in at most half of `fit`.
    """
    columns = [[row[place] for row in rows] for place in range(len(heads))]
    sizes = _widths([()] * len(heads), rows)
    stacks = [_stacked(head, size) for head, size in zip(heads, sizes, strict=True)]
    least = [
        max(size if right else min(size, _LEAST), *map(width, stack))
        for size, right, stack in zip(sizes, to_right, stacks, strict=True)
    ]
    texts = [place for place, right in enumerate(to_right) if not right]
    if texts:
        most = max(texts, key=lambda place: (len(set(columns[place])), -place))
        least[most] = min(least_size(columns[most], least[most]), max(fit // 2, least[most]))
    return least


def _shortened(rows: Sequence[Sequence[str]], widths: Sequence[int]) -> list[tuple[str, ...]]:
    """Return rows whose texts are at most so wide, each column cut in one way."""
    columns = zip(*rows, strict=True)
    cut = (shortened(texts, size) for texts, size in zip(columns, widths, strict=True))
    return list(zip(*cut, strict=True)) if rows else []


def _line(cells: Sequence[str], widths: Sequence[int], to_right: Sequence[bool], gap: int) -> str:
    padded = []
    for cell, size, right in zip(cells, widths, to_right, strict=True):
        text = at_end(cell, size)
        space = " " * (size - width(text))
        padded.append(space + text if right else text + space)
    return (" " * gap).join(padded).rstrip()
