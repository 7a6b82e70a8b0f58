"""Why a query, or some of its samples, failed: the text that an agent puts beside it, in parts."""

import re
from collections.abc import Iterator

from mlscope.counts import many

_SAMPLE = re.compile(r"(?:^|; )sample (\d+): ")
_MORE = re.compile(r"; (\d+) more failed$")


def reasons_of(error: str) -> Iterator[tuple[int | None, str]]:
    """Yield the parts of a query's error: each of a sample by its index, or of the whole query."""
    more = _MORE.search(error)
    head, *rest = _SAMPLE.split(error[: more.start()] if more else error)
    if head or not rest:
        yield None, head
    for number, reason in zip(rest[::2], rest[1::2], strict=True):
        yield int(number), reason
    if more:
        yield None, f"{many(int(more[1]), 'more sample')}, for which there was no room here"


def samples_in(error: str) -> list[int]:
    """Return the samples that a query's error names, in its order."""
    return [sample for sample, _ in reasons_of(error) if sample is not None]
