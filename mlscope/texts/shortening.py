"""Shortens the texts of a column so that they can still be distinguished. Pure."""

import unicodedata
from collections.abc import Iterable, Sequence

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_HEAD_SHARE = 3
"""One part in three of a text cut in its middle is its start: the end of a name says more."""


def width(text: str) -> int:
    """Return the width of a text in terminal columns."""
    if text.isascii():
        return len(text)
    return sum(
        0
        if unicodedata.combining(character)
        else 1 + (unicodedata.east_asian_width(character) in "WF")
        for character in text
    )


def at_most(text: str, count: int) -> str:
    """Return at most `count` characters of a text that may be very long, without its end."""
    return text if len(text) <= count else text[: count - 1] + _ELLIPSIS


def at_end(text: str, size: int) -> str:
    """Return a text of at most `size` columns without its end: `layer4…`."""
    return text if width(text) <= size else _first(text, size - 1).rstrip() + _ELLIPSIS


def in_middle(text: str, size: int) -> str:
    """Return a text of at most `size` columns without its middle: `lay…conv1`."""
    if width(text) <= size:
        return text
    head = (size - 1) // _HEAD_SHARE
    return _first(text, head) + _ELLIPSIS + _last(text, size - 1 - head)


def at_begin(text: str, size: int) -> str:
    """Return a text of at most `size` columns without its beginning: `…1.conv1`."""
    return text if width(text) <= size else _ELLIPSIS + _last(text, size - 1)


def shortened(texts: Sequence[str], size: int) -> list[str]:
    """Return texts of at most `size` columns, all cut at the end, in the middle or at the start.

    The choice is the one that leaves most texts different; at the end if several do.
    """
    if all(width(text) <= size for text in texts):
        return list(texts)
    candidates = (
        [shorten(text, size) for text in texts] for shorten in (at_end, in_middle, at_begin)
    )
    return max(candidates, key=lambda candidate: len(set(candidate)))


def least_size(texts: Sequence[str], least: int) -> int:
    """Return the smallest width, `least` or more, at which different texts stay different."""
    distinct = list(set(texts))
    low, high = least, max((width(text) for text in distinct), default=0)
    while low < high:
        middle = (low + high) // 2
        if len(set(shortened(distinct, middle))) == len(distinct):
            high = middle
        else:
            low = middle + 1
    return low


def _first(text: str, size: int) -> str:
    """Return the longest start of a text that takes at most `size` columns."""
    if text.isascii():
        return text[: max(size, 0)]
    return text[: _characters_within(text, size)]


def _last(text: str, size: int) -> str:
    """Return the longest end of a text that takes at most `size` columns."""
    count = max(size, 0) if text.isascii() else _characters_within(reversed(text), size)
    return text[max(len(text) - count, 0) :]


def _characters_within(characters: Iterable[str], size: int) -> int:
    """Return how many of the first characters take at most `size` columns together."""
    columns = count = 0
    for count, character in enumerate(characters):
        columns += width(character)
        if columns > size:
            return count
    return count + 1
