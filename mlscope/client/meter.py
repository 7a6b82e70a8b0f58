"""Counts and latency so far, from live batches: an estimate to look at, never a result.

Latencies go into buckets of 1/128 octave, so a percentile is that of all queries so far within
0.3%. The buckets of `Reading.histogram` are 16 times wider: 9% each.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mlscope.quantities import shown
from mlscope.statistics import is_certified
from mlscope.statistics.latency_buckets import BUCKETS_PER_OCTAVE, buckets_of
from schemas.batch import QueriesAnswered
from schemas.live.resources import ResourcesUsed

_FINE = 16
"""Buckets of latency in one of `Reading.histogram`."""
_FINE_PER_OCTAVE = BUCKETS_PER_OCTAVE * _FINE
_BUCKETS = 64 * _FINE_PER_OCTAVE
_MOST_RUNS = 1000
"""Runs that are counted, as many as an evaluation has: over NATS an agent may make up others."""


@dataclass(frozen=True, slots=True)
class Reading:
    """What a run's live batches said so far; latencies in ns, -1 before the first answer.

    `busy_ns` is the sum of all latencies, and `until_ns` the end of the last query on the run's own
    clock: two readings give throughput, and by Little's law how many queries were in flight.
    """

    run: str
    attempt: int
    answered: int
    failed: int
    spans: int
    p50_ns: int
    p99_ns: int
    p90_ns: int = -1
    samples: int = 0
    busy_ns: int = 0
    until_ns: int = -1
    #: batches of queries before the newest that were not heard: the counts lack them
    unheard: int = 0
    #: what the run uses, by its agent's last message; None where it said nothing
    cpu_cores: float | None = None
    gpu_share: float | None = None
    power_w: float | None = None
    #: the number of answered queries by bucket, without empty ones
    histogram: Mapping[int, int] = field(default_factory=dict)
    #: the number of the slowest answered query by bucket
    slowest: Mapping[int, int] = field(default_factory=dict)

    @property
    def p99_text(self) -> str:
        """The 99th percentile so far as text; one of fewer queries than certify it says so."""
        text = shown(self.p99_ns, "ns") if self.p99_ns >= 0 else shown(None)
        is_doubtful = self.p99_ns >= 0 and not is_certified(0.99, self.answered)
        return f"{text} (few queries)" if is_doubtful else text


class RunMeter:
    """One attempt's counts; a batch heard twice counts once."""

    def __init__(self, run: str, attempt: int) -> None:
        """Begin with nothing counted."""
        self.run = run
        self.attempt = attempt
        self._answered = 0
        self._failed = 0
        self._spans = 0
        self._samples = 0
        self._busy_ns = 0
        self._until_ns = -1
        self._used: ResourcesUsed | None = None
        self._heard: set[tuple[str, int]] = set()
        self._slowest: dict[int, tuple[int, int]] = {}
        self._buckets: NDArray[np.int64] = np.zeros(_BUCKETS, np.int64)

    def count_queries(self, fact: QueriesAnswered) -> None:
        """Add a batch of queries."""
        if not self._is_new("query", fact.sequence):
            return
        good = np.frombuffer(fact.status, np.int8) == 0
        answered = int(good.sum())
        self._answered += answered
        self._failed += fact.count - answered
        latencies = latencies_ns(fact)[good]
        self._samples += int(np.frombuffer(fact.size, "<i4")[good].sum())
        self._busy_ns += int(latencies.sum())
        if fact.count:
            self._until_ns = max(self._until_ns, int(np.frombuffer(fact.ended_ns, "<i8").max()))
        buckets = np.clip(buckets_of(latencies, _FINE_PER_OCTAVE), 0, _BUCKETS - 1)
        np.add.at(self._buckets, buckets, 1)
        # Remember the slowest query of each coarse bucket; of equal ones the first.
        queries = np.frombuffer(fact.query, "<i4")[good]
        slowest_first = np.argsort(-latencies, kind="stable")
        coarse, places = np.unique((buckets // _FINE)[slowest_first], return_index=True)
        for bucket, place in zip(coarse.tolist(), slowest_first[places].tolist(), strict=True):
            slowest = (int(latencies[place]), int(queries[place]))
            if slowest[0] > self._slowest.get(bucket, (-1, -1))[0]:
                self._slowest[bucket] = slowest

    def count_spans(self, sequence: int, count: int) -> None:
        """Add the size of a batch of spans."""
        if self._is_new("trace", sequence):
            self._spans += count

    def note_use(self, used: ResourcesUsed) -> None:
        """Keep what the run uses now."""
        self._used = used

    def read(self) -> Reading:
        """Return what was counted."""
        coarse = self._buckets.reshape(-1, _FINE).sum(axis=1)
        heard = [sequence for kind, sequence in self._heard if kind == "query"]
        return Reading(
            run=self.run,
            attempt=self.attempt,
            answered=self._answered,
            failed=self._failed,
            spans=self._spans,
            p50_ns=self._quantile(0.5),
            p99_ns=self._quantile(0.99),
            p90_ns=self._quantile(0.9),
            samples=self._samples,
            busy_ns=self._busy_ns,
            until_ns=self._until_ns,
            # Batches before the first that was heard, or between.
            unheard=max(heard) + 1 - len(heard) if heard else 0,
            cpu_cores=self._used.cpu_cores if self._used else None,
            gpu_share=self._used.gpu_share if self._used else None,
            power_w=self._used.power_w if self._used else None,
            histogram={int(n): int(coarse[n]) for n in np.flatnonzero(coarse)},
            slowest={bucket: query for bucket, (_, query) in self._slowest.items()},
        )

    def _is_new(self, kind: str, sequence: int) -> bool:
        before = len(self._heard)
        self._heard.add((kind, sequence))
        return len(self._heard) > before

    def _quantile(self, share: float) -> int:
        total = int(self._buckets.sum())
        if not total:
            return -1
        rank = max(1, int(np.ceil(share * total)))
        bucket = int(np.searchsorted(np.cumsum(self._buckets), rank))
        return int(2.0 ** ((bucket + 0.5) / _FINE_PER_OCTAVE) + 0.5)


class Meter:
    """Every run of one evaluation: the newest attempt's counts, older attempts forgotten."""

    def __init__(self) -> None:
        """Begin with no run."""
        self._runs: dict[str, RunMeter] = {}

    def count_queries(self, fact: QueriesAnswered) -> None:
        """Add a batch of queries."""
        if meter := self._meter(fact.run, fact.attempt):
            meter.count_queries(fact)

    def count_spans(self, run: str, attempt: int, sequence: int, count: int) -> None:
        """Add the `count` of spans in batch `sequence` of an `attempt` at a `run`.

        A batch that was counted before, or of an older attempt, adds nothing.
        """
        if meter := self._meter(run, attempt):
            meter.count_spans(sequence, count)

    def note_use(self, used: ResourcesUsed) -> bool:
        """Keep what a run that answers queries uses now; return whether it is such a run."""
        meter = self._runs.get(used.run)
        if meter is None or meter.attempt != used.attempt:
            return False
        meter.note_use(used)
        return True

    def read(self) -> dict[str, Reading]:
        """Return every run's reading, by run."""
        return {run: meter.read() for run, meter in self._runs.items()}

    def _meter(self, run: str, attempt: int) -> RunMeter | None:
        meter = self._runs.get(run)
        is_one_too_many = meter is None and len(self._runs) >= _MOST_RUNS
        if is_one_too_many or (meter and meter.attempt > attempt):
            return None
        if meter is None or meter.attempt < attempt:
            meter = self._runs[run] = RunMeter(run, attempt)
        return meter


def latencies_ns(fact: QueriesAnswered) -> NDArray[np.int64]:
    """Return a batch's latencies: from the due time, or from the issue in a closed loop."""
    due = np.frombuffer(fact.due_ns, "<i8")
    issued = np.frombuffer(fact.issued_ns, "<i8")
    ended = np.frombuffer(fact.ended_ns, "<i8")
    return np.asarray(ended - np.where(due >= 0, due, issued), np.int64)
