"""Why a query, or some of its samples, failed: the agent's error text in parts."""

import re
from collections.abc import Iterator

from mlscope.counts import many

_SAMPLE = re.compile(r"(?:^|; )sample (\d+): ")
_OMITTED = re.compile(r"; (\d+) more failed$")


def reasons_of(error: str) -> Iterator[tuple[int | None, str]]:
    """Yield the parts of a query's error with the sample's index, None for the whole query."""
    omitted = _OMITTED.search(error)
    head, *numbers_and_reasons = _SAMPLE.split(error[: omitted.start()] if omitted else error)
    if head or not numbers_and_reasons:
        yield None, head
    for number, reason in zip(numbers_and_reasons[::2], numbers_and_reasons[1::2], strict=True):
        yield int(number), reason
    if omitted:
        yield None, f"{many(int(omitted[1]), 'more sample')}, omitted from this text"


def samples_in(error: str) -> list[int]:
    """Return the indices of the samples that a query's error names, in its order."""
    return [sample for sample, _ in reasons_of(error) if sample is not None]
