"""How many evaluations each person has open, and requested within a day. Mutable, without I/O."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from schemas.people import Asker
from schemas.request import Refused

DAY_NS = 86_400_000_000_000
_MOST_REMEMBERED = 100_000


@dataclass(slots=True)
class Quotas:
    """The evaluations that people requested, as the log says."""

    _open: dict[str, set[str]] = field(default_factory=dict)
    _requested_ns: dict[str, deque[int]] = field(default_factory=dict)

    def request(self, person: str, evaluation: str, requested_ns: int) -> None:
        """Count an `evaluation` that a `person` requested at `requested_ns` (epoch)."""
        self._open.setdefault(person, set()).add(evaluation)
        times_ns = self._requested_ns.setdefault(person, deque(maxlen=_MOST_REMEMBERED))
        times_ns.append(requested_ns)

    def end(self, person: str, evaluation: str) -> None:
        """Count an `evaluation` of a `person` as ended."""
        self._open.get(person, set()).discard(evaluation)

    def refusal(self, asker: Asker, checking: int, now_ns: int) -> Refused | None:
        """Return why an `asker` may not request another evaluation at `now_ns` (epoch), if so.

        `checking` requests of the asker are being checked, and count as well.
        """
        count = len(self._open.get(asker.name, ())) + checking
        if asker.at_most and count >= asker.at_most:
            return _exhausted(
                f"{asker.name} has {count} evaluations waiting or running; another is allowed "
                "once one of them has ended, or is cancelled",
                f"at most {asker.at_most} at once",
            )
        times_ns = self._requested_ns.get(asker.name, deque[int]())
        recent_ns = sorted(time_ns for time_ns in times_ns if time_ns > now_ns - DAY_NS)
        if not asker.per_day or len(recent_ns) + checking < asker.per_day:
            return None
        # The oldest ones that still count have to be a day old before there is room for one more.
        awaited_ns = recent_ns[max(0, len(recent_ns) - asker.per_day)] if recent_ns else now_ns
        again = datetime.fromtimestamp((awaited_ns + DAY_NS) / 1e9, UTC).isoformat(
            " ", timespec="seconds"
        )
        return _exhausted(
            f"{asker.name} requested {len(recent_ns)} evaluations within a day; another is "
            f"allowed at {again}",
            f"at most {asker.per_day} within 24 hours",
        )


def _exhausted(message: str, allowed: str) -> Refused:
    return Refused(error="exhausted", message=message, field="requested_by", allowed=allowed)
