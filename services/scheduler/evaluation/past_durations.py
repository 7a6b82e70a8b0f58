"""How long groups of runs took, and how long a plan's groups will take. Mutable, without I/O.

The runs of a group take turns, so a group is what has a duration: from the start of its first run
to the report on its last one, by the clock of the NATS server. It includes opening the model.
"""

import hashlib
import json
import math
from collections import OrderedDict, defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from statistics import median
from typing import NamedTuple

from mlscope.bus.records import Recorded
from schemas.evaluation import EvaluationMeasured, RunStarted
from schemas.people import Asker
from schemas.plan import Plan, RunPlan, SessionPlan, Subject
from schemas.run import RunCompleted
from services.scheduler.evaluation.state import EvaluationState

_MOST_LOADS = 4096
_MOST_OF_LOAD = 16
"""The loads that are remembered, the newest of them, and durations of each."""


@dataclass(frozen=True, slots=True)
class Duration:
    """How long one group took on one agent, in seconds; `levels` are those of its runs."""

    duration_s: float
    batch_size: int
    levels: tuple[int, ...]
    requested_by: str
    is_private: bool


class Expected(NamedTuple):
    """How long a plan's runs will take, in seconds, as `runs` earlier ones tell."""

    duration_s: float
    runs: int


@dataclass(slots=True)
class PastDurations:
    """The durations of the newest groups of each load on each agent."""

    _durations: OrderedDict[str, deque[Duration]] = field(default_factory=OrderedDict)
    _began_ns: dict[str, dict[str, int]] = field(default_factory=dict)
    _took_s: dict[str, dict[str, float]] = field(default_factory=dict)

    def take(self, recorded: Recorded, state: EvaluationState) -> None:
        """Learn from a fact of an evaluation, which led to `state`."""
        fact, name = recorded.fact, state.evaluation
        if isinstance(fact, RunStarted):
            self._began_ns.setdefault(name, {})[fact.run] = recorded.at_ns
            self._took_s.setdefault(name, {}).pop(fact.run, None)
        elif isinstance(fact, RunCompleted):
            self._complete(recorded.at_ns, fact, state)
        elif isinstance(fact, EvaluationMeasured):
            self._learn(state)
        if state.is_ended or isinstance(fact, EvaluationMeasured):
            self._began_ns.pop(name, None)
            self._took_s.pop(name, None)

    def expected(self, plan: Plan, asker: Asker) -> Expected | None:
        """Return how long the busiest agent of a `plan` will take, without any wait for its turn.

        It is None if one of the plan's groups is unlike all that `asker` may see. Of those alike,
        the ones with the nearest batch size count, and of these the ones with the same levels.
        """
        by_agent: defaultdict[str, float] = defaultdict(float)
        sources: dict[int, Duration] = {}
        for session, runs in _groups_of(plan):
            load = _load_of(plan.subject_of(session.session), session, runs[0])
            alike = [
                duration
                # A copy: what is measured meanwhile adds to it.
                for duration in tuple(self._durations.get(load, ()))
                if asker.may_see(duration.requested_by, is_private=duration.is_private)
            ]
            levels = _levels_of(runs)
            nearest = _nearest(alike, session.batch_size, levels)
            if not nearest:
                return None
            run_s = median(duration.duration_s / len(duration.levels) for duration in nearest)
            by_agent[session.agent] += run_s * len(levels)
            sources |= {id(duration): duration for duration in nearest}
        runs_before = sum(len(duration.levels) for duration in sources.values())
        return Expected(max(by_agent.values()), runs_before) if by_agent else None

    def _complete(self, at_ns: int, fact: RunCompleted, state: EvaluationState) -> None:
        """Note how long a run took, unless it was measured elsewhere and is played back here."""
        run = state.runs.get(fact.run)
        began_ns = self._began_ns.get(state.evaluation, {}).get(fact.run)
        if run is None or began_ns is None or run.attempt != fact.attempt:
            return
        measured_ns = fact.origin.monotonic_end_ns - fact.origin.monotonic_ns
        if at_ns - began_ns >= measured_ns:
            self._took_s[state.evaluation][fact.run] = (at_ns - began_ns) * 1e-9

    def _learn(self, state: EvaluationState) -> None:
        """Remember the durations of the groups whose runs were all measured where planned."""
        took_s = self._took_s.get(state.evaluation, {})
        assert state.plan is not None, "what is measured was planned"
        for session, runs in _groups_of(state.plan):
            is_whole = all(
                run.run in took_s and state.runs[run.run].agent == session.agent for run in runs
            )
            if not is_whole:
                continue
            load = _load_of(state.plan.subject_of(session.session), session, runs[0])
            durations = self._durations.setdefault(load, deque(maxlen=_MOST_OF_LOAD))
            self._durations.move_to_end(load)
            durations.append(
                Duration(
                    duration_s=max(took_s[run.run] for run in runs),
                    batch_size=session.batch_size,
                    levels=_levels_of(runs),
                    requested_by=state.requested_by,
                    is_private=state.is_private,
                )
            )
            if len(self._durations) > _MOST_LOADS:
                self._durations.popitem(last=False)


def _groups_of(plan: Plan) -> Iterator[tuple[SessionPlan, Sequence[RunPlan]]]:
    for session in plan.sessions:
        for _, runs in groupby(session.runs, lambda run: run.group):
            yield session, list(runs)


def _levels_of(runs: Iterable[RunPlan]) -> tuple[int, ...]:
    return tuple(sorted(int(run.level) for run in runs))


def _load_of(subject: Subject, session: SessionPlan, run: RunPlan) -> str:
    """Return a digest of what groups of equal durations share, beside batch size and levels."""
    rule = run.blocks or subject.blocks
    model = subject.model_digest or f"{subject.model.name}:{subject.model.version}"
    content = [
        (model, subject.dataset.name, subject.dataset.version),
        (subject.framework, subject.device, subject.options, subject.warmup),
        (session.agent, session.variant),
        (run.scenario, run.parameters, run.pacing, rule.model_dump(mode="json")),
    ]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _nearest(
    alike: Sequence[Duration], batch_size: int, levels: tuple[int, ...]
) -> Sequence[Duration]:
    """Return the durations of the batch size nearest to `batch_size`, best of the same `levels`."""

    def distance(duration: Duration) -> tuple[float, bool]:
        return abs(math.log2(duration.batch_size / batch_size)), duration.levels != levels

    nearest = min(map(distance, alike), default=None)
    return [duration for duration in alike if distance(duration) == nearest]
