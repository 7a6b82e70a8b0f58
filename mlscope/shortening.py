"""Texts made shorter so that those of one column are still told apart. Pure."""

import unicodedata
from collections.abc import Callable, Sequence

_ELLIPSIS = "\N{HORIZONTAL ELLIPSIS}"
_HEAD_SHARE = 3
"""Of a text cut in its middle, one part in so many is its beginning: ends tell more of a name."""

Way = Callable[[str, int], str]


def width(text: str) -> int:
    """Return how many terminal columns a text takes."""
    if text.isascii():
        return len(text)
    return sum(
        0 if unicodedata.combining(each) else 1 + (unicodedata.east_asian_width(each) in "WF")
        for each in text
    )


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
    """Return texts of at most `size` columns, cut where most stay unlike, else at the end."""
    if all(width(text) <= size for text in texts):
        return list(texts)
    ways = (_cut(texts, size, way) for way in (at_end, in_middle, at_begin))
    return max(ways, key=lambda found: len(set(found)))


def least_size(texts: Sequence[str], least: int) -> int:
    """Return the fewest columns, `least` or more, at which texts that are unlike stay so."""
    own = list(set(texts))
    low, high = least, max((width(text) for text in own), default=0)
    while low < high:
        middle = (low + high) // 2
        if len(set(shortened(own, middle))) == len(own):
            high = middle
        else:
            low = middle + 1
    return low


def _cut(texts: Sequence[str], size: int, way: Way) -> list[str]:
    return [way(text, size) for text in texts]


def _first(text: str, size: int) -> str:
    """Return the longest beginning that takes at most `size` columns."""
    kept = text[: max(size, 0)] if text.isascii() else text
    while kept and width(kept) > size:
        kept = kept[:-1]
    return kept


def _last(text: str, size: int) -> str:
    """Return the longest end that takes at most `size` columns."""
    kept = text[len(text) - max(size, 0) :] if text.isascii() and len(text) > size else text
    while kept and width(kept) > size:
        kept = kept[1:]
    return kept
