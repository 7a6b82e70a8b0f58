"""Decides from counts in the database whether all batches of an attempt are stored. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from schemas.run import RunIncomplete, RunRecorded

_LONGEST_WAIT_S = 30.0
"""How long an issuer's last batches may take to come, also where the deadline was raised."""


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The number of rows of an attempt in the database."""

    spans: int
    queries: int
    outputs: int


@dataclass(frozen=True, slots=True)
class WaitingAttempt:
    """An attempt that ended and was not announced yet.

    `announced` and `stored` count its batches by kind: trace, query, output. `batches` counts all
    stored batches, also more than were announced. The agent of an interrupted attempt has not
    announced how many there are. Nor has one that failed under a load from elsewhere announced its
    queries: it `may_get_queries`, which its issuer has on their way.
    """

    run_key: int
    evaluation: str
    run: str
    attempt: int
    cause: str
    announced: tuple[int, ...]
    stored: tuple[int, ...]
    rows: StoredRows
    batches: int = 0
    is_interrupted: bool = False
    may_get_queries: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every announced batch is stored."""
        return self.stored == self.announced and not self.is_interrupted


@dataclass(slots=True)
class Progress:
    """Since when, by a monotonic clock, the counts of each waiting attempt are what they are.

    The database's clock may be set, and counts no matter how late: only what was seen to stand
    still for long is given up. A collector that starts anew waits anew.
    """

    _since: dict[int, tuple[int, str, float]] = field(default_factory=dict)

    def waited_s(self, attempts: Iterable[WaitingAttempt], now_s: float) -> dict[int, float]:
        """Return, by run key, for how long each of `attempts`, all there are, got no batch."""
        since: dict[int, tuple[int, str, float]] = {}
        for attempt in attempts:
            batches, cause, at_s = self._since.get(attempt.run_key, (-1, "", now_s))
            is_still = (batches, cause) == (attempt.batches, attempt.cause)
            since[attempt.run_key] = (attempt.batches, attempt.cause, at_s if is_still else now_s)
        self._since = since
        return {run_key: now_s - at_s for run_key, (_, _, at_s) in since.items()}


def decide(
    waiting: WaitingAttempt, waited_s: float, deadline_s: float
) -> RunRecorded | RunIncomplete | None:
    """Return the fact to publish about the `waiting` attempt now; None means to wait.

    It got no batch for `waited_s` seconds. After `deadline_s` of them an attempt counts as
    incomplete, also an interrupted one. One that may get queries from its issuer is complete after
    a thirtieth of that, and at most `_LONGEST_WAIT_S`: the issuer ends with the attempt.
    """
    queries_wait_s = min(deadline_s / 30, _LONGEST_WAIT_S) if waiting.may_get_queries else 0.0
    if waiting.is_complete and waited_s >= queries_wait_s:
        return RunRecorded(
            evaluation=waiting.evaluation,
            run=waiting.run,
            attempt=waiting.attempt,
            spans=waiting.rows.spans,
            queries=waiting.rows.queries,
            outputs=waiting.rows.outputs,
            batches=waiting.batches,
        )
    if waiting.is_complete or waited_s < deadline_s:
        return None
    return RunIncomplete(
        evaluation=waiting.evaluation,
        run=waiting.run,
        attempt=waiting.attempt,
        spans=waiting.rows.spans,
        queries=waiting.rows.queries,
        outputs=waiting.rows.outputs,
        announced_batches=sum(waiting.announced),
        stored_batches=waiting.batches if waiting.is_interrupted else sum(waiting.stored),
        batches=waiting.batches,
    )
