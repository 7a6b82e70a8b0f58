"""How far the cluster's clock is ahead of this machine's, and how well that is known. Pure.

As NTP does: a question and its answer have four stamps, two of each clock. Whatever the times of
travel were, the true offset is within half the round trip of the middle; so of several exchanges
the quickest is best.
"""

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Exchange:
    """The stamps of one question, in ns: `sent`, `heard` here, `received`, `answered` there."""

    sent_ns: int
    received_ns: int
    answered_ns: int
    heard_ns: int


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """The cluster's clock minus this machine's, which is wrong by at most `bound_ns`."""

    offset_ns: int
    bound_ns: int


def offset_of(exchanges: Iterable[Exchange]) -> ClockOffset | None:
    """Return the offset by the quickest of `exchanges`; None without any that is possible.

    One that took less time than its answer took there is not: a clock was stepped meanwhile.
    """
    offsets = []
    for exchange in exchanges:
        there_ns = exchange.answered_ns - exchange.received_ns
        round_trip_ns = exchange.heard_ns - exchange.sent_ns - there_ns
        if there_ns < 0 or round_trip_ns < 0:
            continue
        doubled_ns = (
            exchange.received_ns - exchange.sent_ns + exchange.answered_ns - exchange.heard_ns
        )
        # One more for the halves that are cut off.
        offsets.append(ClockOffset(doubled_ns // 2, round_trip_ns // 2 + 1))
    return min(offsets, key=lambda offset: offset.bound_ns, default=None)
