"""What a check of this machine finds."""

from dataclasses import dataclass
from typing import Literal

State = Literal["ok", "missing", "note", "unverified"]


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of a check.

    `missing` is required, a `note` only limits what can be measured, and `unverified` is a part of
    mlscope that nobody has run on the hardware it is written for.
    """

    check: str
    state: State
    observation: str
    advice: str = ""
