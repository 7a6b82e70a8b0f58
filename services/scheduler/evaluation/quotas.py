"""What each person has open, and requested within a day. Mutable, without I/O."""

from collections import deque
from dataclasses import dataclass, field
from datetime import UTC, datetime

from schemas.people import Asker
from schemas.request import Refused

DAY_NS = 86_400_000_000_000
_MOST_REMEMBERED = 100_000


@dataclass(slots=True)
class Quotas:
    """The evaluations that people requested, as the log says.

    A person may request `daily_bytes` within a day, and have `most_open` evaluations at once, which
    leaves room for others.
    """

    daily_bytes: int = 256 << 20
    most_open: int = 5000
    _open: dict[str, set[str]] = field(default_factory=dict)
    _requested_ns: dict[str, deque[int]] = field(default_factory=dict)
    _sizes: dict[str, deque[tuple[int, int]]] = field(default_factory=dict)

    def request(self, person: str, evaluation: str, requested_ns: int, size_bytes: int) -> None:
        """Count an `evaluation` that a `person` requested at `requested_ns` (epoch).

        The request has `size_bytes`.
        """
        self._open.setdefault(person, set()).add(evaluation)
        times_ns = self._requested_ns.setdefault(person, deque(maxlen=_MOST_REMEMBERED))
        times_ns.append(requested_ns)
        sizes = self._sizes.setdefault(person, deque(maxlen=_MOST_REMEMBERED))
        sizes.append((requested_ns, size_bytes))

    def end(self, person: str, evaluation: str) -> None:
        """Count an `evaluation` of a `person` as ended."""
        self._open.get(person, set()).discard(evaluation)

    def refusal(
        self, asker: Asker, checking: int, now_ns: int, size_bytes: int = 0
    ) -> Refused | None:
        """Return why an `asker` may not request another evaluation at `now_ns` (epoch), if so.

        The request has `size_bytes`; `checking` others of the asker, as large as it, are being
        checked, and count as well.
        """
        count = len(self._open.get(asker.name, ())) + checking
        if asker.at_most and count >= asker.at_most:
            return _exhausted(
                f"{asker.name} has {count} evaluations waiting or running; another is allowed "
                "once one of them has ended, or is cancelled",
                f"at most {asker.at_most} at once",
            )
        if asker.name and count >= max(1, self.most_open):
            message = (
                f"{asker.name} has {count} evaluations waiting or running, half of those that the "
                "cluster takes; cancel some, or try again later"
            )
            return Refused(error="busy", message=message)
        if refused := self._bytes_refusal(asker, now_ns, (1 + checking) * size_bytes):
            return refused
        times_ns = self._requested_ns.get(asker.name, deque[int]())
        recent_ns = sorted(time_ns for time_ns in times_ns if time_ns > now_ns - DAY_NS)
        if not asker.per_day or len(recent_ns) + checking < asker.per_day:
            return None
        # The oldest ones that still count have to be a day old before there is room for one more.
        awaited_ns = recent_ns[max(0, len(recent_ns) - asker.per_day)] if recent_ns else now_ns
        return _exhausted(
            f"{asker.name} requested {len(recent_ns)} evaluations within a day; another is "
            f"allowed at {_day_after(awaited_ns)}",
            f"at most {asker.per_day} within 24 hours",
        )

    def _bytes_refusal(self, asker: Asker, now_ns: int, size_bytes: int) -> Refused | None:
        """Return why `size_bytes` more would be too many of an `asker` within a day, if so.

        The cluster's own user and owners have no limit.
        """
        if not asker.name or asker.is_owner:
            return None
        recent = [
            (time_ns, size)
            for time_ns, size in self._sizes.get(asker.name, ())
            if time_ns > now_ns - DAY_NS
        ]
        excess = sum(size for _, size in recent) + size_bytes - self.daily_bytes
        if excess <= 0:
            return None
        awaited_ns = now_ns
        for time_ns, size in sorted(recent):
            if excess <= 0:
                break
            awaited_ns, excess = time_ns, excess - size
        again = f"this one is allowed at {_day_after(awaited_ns)}; " if excess <= 0 else ""
        return _exhausted(
            f"requests of {asker.name} within a day would be larger than "
            f"{self.daily_bytes / 1e6:.0f} MB; {again}files that are uploaded before, or given by "
            "an address, do not count, those of predictions do",
            f"at most {self.daily_bytes} bytes of requests within 24 hours "
            "(MLSCOPE_MAX_PERSON_REQUEST_BYTES)",
        )


def _day_after(time_ns: int) -> str:
    """Return the time a day after `time_ns` (epoch), in UTC, for people."""
    then = datetime.fromtimestamp((time_ns + DAY_NS) / 1e9, UTC)
    return then.isoformat(" ", timespec="seconds")


def _exhausted(message: str, allowed: str) -> Refused:
    return Refused(error="exhausted", message=message, field="requested_by", allowed=allowed)
