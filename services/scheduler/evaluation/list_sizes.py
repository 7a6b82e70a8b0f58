"""How large the answer of a list may be: one evaluation must not keep others from being listed."""

from collections.abc import Sequence
from typing import Any

from mlscope.texts.shortening import at_most
from schemas.encoding.codec import encode_body
from schemas.status import EvaluationStatus

MOST_BYTES = 7 << 20
"""Of all evaluations together; the bus carries 8 MiB in a message."""
_MOST_BYTES_OF_ONE = 256 << 10
_MOST_CHARACTERS = 200
_MOST_NAMED = 8
_NOTE = "too large for a list: its page has the rest"


def fitting(
    statuses: Sequence[EvaluationStatus], most_bytes: int = MOST_BYTES
) -> list[EvaluationStatus]:
    """Return the evaluations of a list, in `most_bytes` together as far as they can be shortened.

    Where they have more, the largest lack their figures, labels and long texts, and say so in
    `notes`.
    """
    listed, sizes = list(statuses), [len(encode_body(status)) for status in statuses]
    size_bytes = sum(sizes)
    for index in sorted(range(len(listed)), key=lambda index: sizes[index], reverse=True):
        if size_bytes <= most_bytes:
            break
        listed[index] = _short(listed[index])
        size_bytes += len(encode_body(listed[index])) - sizes[index]
    return listed


def listable(status: EvaluationStatus) -> EvaluationStatus:
    """Return an evaluation as it is kept for lists: shortened if it alone has 256 KiB or more."""
    return status if len(encode_body(status)) < _MOST_BYTES_OF_ONE else _short(status)


def _short(status: EvaluationStatus) -> EvaluationStatus:
    texts = {
        name: at_most(getattr(status, name), _MOST_CHARACTERS)
        for name in ("model", "framework", "device", "cause")
    }
    lists = {name: getattr(status, name)[:_MOST_NAMED] for name in ("agents", "tables")}
    left_out: dict[str, Any] = {"labels": {}, "headlines": (), "refusals": (), "extent": None}
    return status.model_copy(update={**texts, **lists, **left_out, "notes": (_NOTE,)})
