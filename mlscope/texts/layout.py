"""Rows of text as an aligned table that fits a terminal's width if possible. Pure."""

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from mlscope.texts.shortening import at_end, least_size, shortened, width

_WIDE_GAP, _NARROW_GAP = 2, 1
_LEAST = 8
"""The minimum width of a column of shortened text."""
_MOST_FOLDED = 36
"""The maximum width of a column whose text continues on further lines; more on a wide terminal."""


@dataclass(frozen=True, slots=True)
class Layout:
    """A table in lines: those of its heading, and those of its rows."""

    head: list[str]
    body: list[str]


def laid_out(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    to_right: Sequence[bool],
    fit: int = 0,
) -> Layout:
    """Return an aligned table of at most `fit` terminal columns if possible (0: any width).

    `heads` are the headings, `rows` the cells; columns with True in `to_right` are aligned right.
    A table that is too wide gets headings of several lines, then narrow gaps, then shorter texts.
    Columns that distinguish rows are shortened last, and so that they still do if possible;
    numbers are never shortened.
    """
    stacks, gap = [[head] for head in heads], _WIDE_GAP
    widths = _widths(stacks, rows)
    if fit and _total(widths, gap) > fit:
        stacks = list(map(_stacked, heads, _widths([()] * len(heads), rows)))
        widths = _widths(stacks, rows)
    if fit and _total(widths, gap) > fit:
        gap = _NARROW_GAP
        widths = _cut(widths, stacks, rows, to_right, fit)
        rows = list(zip(*map(shortened, zip(*rows, strict=True), widths), strict=True))
    return Layout(
        _head_lines(stacks, widths, to_right, gap),
        [_line(cells, widths, to_right, gap) for cells in rows],
    )


def folded(
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    to_right: Sequence[bool],
    fit: int = 0,
) -> Layout:
    """Return an aligned table whose long texts continue on further lines, instead of shortened.

    `heads`, `rows` and `to_right` are as in `laid_out`. The table takes at most `fit` terminal
    columns if possible (0: any width); the widest texts become narrower first, numbers never. The
    first column, which names the row, stays on one line: it is shortened to half of `fit`.
    """
    if fit:
        names = shortened([row[0] for row in rows], max(fit // 2, _LEAST))
        rows = [(name, *row[1:]) for name, row in zip(names, rows, strict=True)]
    # The texts that continue: not the first column, and no numbers.
    folding = [place for place in range(1, len(heads)) if not to_right[place]]
    sizes = _widths([()] * len(heads), rows)
    for place in folding:
        sizes[place] = min(sizes[place], max(_MOST_FOLDED, fit // 2))
    stacks = list(map(_stacked, heads, sizes))
    widths = [max(size, *map(width, stack)) for size, stack in zip(sizes, stacks, strict=True)]
    gap = _WIDE_GAP
    longest = {
        place: max((width(text) for row in rows for text in row[place].split()), default=0)
        for place in folding
    }
    # First no narrower than the longest words, then as narrow as it takes.
    for floors in (longest, dict.fromkeys(folding, 0)) if fit else ():
        widths, gap = _narrowed(widths, gap, floors, fit)
    return Layout(
        _head_lines(stacks, widths, to_right, gap),
        [line for row in rows for line in _folded_row(row, widths, to_right, gap)],
    )


def _narrowed(
    widths: Sequence[int], gap: int, floors: Mapping[int, int], fit: int
) -> tuple[list[int], int]:
    """Return the widths and the gap that fit if possible, the widest made narrower first.

    Only columns in `floors` become narrower, down to that width, but not below the minimum. None
    does where narrow gaps alone are enough.
    """
    if _total(widths, gap) > fit >= _total(widths, _NARROW_GAP):
        return list(widths), _NARROW_GAP
    narrowed, least = list(widths), list(widths)
    for place, floor in floors.items():
        least[place] = max(_LEAST, floor)
    if _total(least, gap) > fit:
        gap = _NARROW_GAP
    while _total(narrowed, gap) > fit:
        free = [place for place in floors if narrowed[place] > least[place]]
        if not free:
            break
        narrowed[max(free, key=narrowed.__getitem__)] -= 1
    return narrowed, gap


def _folded_row(
    row: Sequence[str], widths: Sequence[int], to_right: Sequence[bool], gap: int
) -> list[str]:
    cells = [
        textwrap.wrap(cell, size, break_on_hyphens=False) or [""]
        for cell, size in zip(row, widths, strict=True)
    ]
    lines = zip_longest(*cells, fillvalue="")
    return [_line(line_cells, widths, to_right, gap) for line_cells in lines]


def wrapped(text: str, fit: int = 0) -> list[str]:
    """Return a text in lines of at most `fit` columns (0: one line), broken between words."""
    lines = textwrap.wrap(text, fit, break_long_words=False, break_on_hyphens=False) if fit else []
    return lines or [text]


def _stacked(head: str, size: int) -> list[str]:
    """Return a heading in lines of about the width of the cells below it."""
    lines: list[str] = []
    for name_part in head.split("_"):
        joined = f"{lines[-1]}_{name_part}" if lines else name_part
        if lines and width(joined) <= size:
            lines[-1] = joined
        else:
            lines.append(name_part)
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
    """Return widths with narrower columns of text, to fit `fit` if possible.

    Columns that distinguish rows are narrowed last, and first to widths at which they still do.
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
    """Return the minimum width of each column, in terminal columns, at which it is useful.

    `heads`, `rows` and `to_right` are as in `laid_out`. Numbers are not shortened. The text column
    that distinguishes most rows still does so, in at most half of `fit`.
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
        distinctive = max(texts, key=lambda place: (len(set(columns[place])), -place))
        least[distinctive] = min(
            least_size(columns[distinctive], least[distinctive]), max(fit // 2, least[distinctive])
        )
    return least


def _head_lines(
    stacks: Sequence[list[str]], widths: Sequence[int], to_right: Sequence[bool], gap: int
) -> list[str]:
    """Return the headings, which end in one line, whatever number of lines each of them has."""
    height = max(map(len, stacks), default=0)
    padded = zip_longest(*([""] * (height - len(stack)) + stack for stack in stacks), fillvalue="")
    return [_line(cells, widths, to_right, gap) for cells in padded]


def _line(cells: Sequence[str], widths: Sequence[int], to_right: Sequence[bool], gap: int) -> str:
    padded = []
    for cell, size, right in zip(cells, widths, to_right, strict=True):
        text = at_end(cell, size)
        space = " " * (size - width(text))
        padded.append(space + text if right else text + space)
    return (" " * gap).join(padded).rstrip()
