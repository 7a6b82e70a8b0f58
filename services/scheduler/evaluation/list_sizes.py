"""How large the answer of a list may be: one evaluation must not keep others from being listed."""

from collections.abc import Sequence
from typing import Any

from mlscope.texts.shortening import at_most
from schemas.encoding.codec import encode_body
from schemas.status import EvaluationStatus

MOST_BYTES = 4 << 20
"""Of all evaluations together, half of what the bus carries in a message."""
_MOST_CHARACTERS = 200
_MOST_NAMED = 8
_NOTE = "too large for a list: its page has the rest"


def fitting(
    statuses: Sequence[EvaluationStatus], most_bytes: int = MOST_BYTES
) -> list[EvaluationStatus]:
    """Return the evaluations of a list, in `most_bytes` together as far as they can be shortened.

    Where they have more, those above an equal share lack their figures, labels and long texts, and
    say so in `notes`.
    """
    sizes = [len(encode_body(status)) for status in statuses]
    if sum(sizes) <= most_bytes:
        return list(statuses)
    share_bytes = most_bytes // len(statuses)
    return [
        status if size <= share_bytes else _short(status)
        for status, size in zip(statuses, sizes, strict=True)
    ]


def _short(status: EvaluationStatus) -> EvaluationStatus:
    texts = {
        name: at_most(getattr(status, name), _MOST_CHARACTERS)
        for name in ("model", "framework", "device", "cause")
    }
    lists = {name: getattr(status, name)[:_MOST_NAMED] for name in ("agents", "tables")}
    left_out: dict[str, Any] = {"labels": {}, "headlines": (), "refusals": (), "extent": None}
    return status.model_copy(update={**texts, **lists, **left_out, "notes": (_NOTE,)})
