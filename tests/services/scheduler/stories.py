"""Stories of evaluations: a log that grows by decisions and by what neighbours publish, by dice."""

import random
from dataclasses import dataclass, field

from mlscope.bus.records import Recorded
from schemas.analysis import AnalysisCompleted, AnalysisFailed
from schemas.evaluation import EvaluationRequested
from schemas.message import Envelope, Fact
from schemas.run import (
    ClockOrigin,
    Conditions,
    RunCompleted,
    RunFailed,
    RunIncomplete,
    RunReady,
    RunRecorded,
    Tally,
)
from schemas.status import AgentStatus
from schemas.subjects import subject_of
from services.scheduler.decision_log import decision_id
from services.scheduler.evaluation.attempts import S_NS
from services.scheduler.evaluation.decide import decide, decide_cancel
from services.scheduler.evaluation.state import EvaluationState, Run, evolve
from services.scheduler.placement.fleet import Fleet, Limits
from tests.services.scheduler.samples import a_catalog, a_request, an_agent

E = "e1"
REQUEST = a_request(
    scenarios=["online", "batched"], batch_sizes=[1, 2], trace_level="framework", wait_s=5
)


@dataclass
class Story:
    """A log that grows by decisions and by what neighbours say; the world turns by dice."""

    dice: random.Random
    now_ns: int = 0
    log: list[Recorded] = field(default_factory=list)
    state: EvaluationState = field(default_factory=EvaluationState)
    agents: dict[str, AgentStatus] = field(default_factory=dict)

    def say(self, fact: Fact, fact_id: str = "") -> None:
        """Record a fact and fold it."""
        number = len(self.log) + 1
        envelope = Envelope.around(fact, id=fact_id or f"id{number}", cause="", time_ns=self.now_ns)
        self.log.append(Recorded(subject_of(fact), number, envelope, fact))
        self.state = evolve(self.state, self.log[-1])

    def fleet(self) -> Fleet:
        """Return the agents as they are now."""
        limits = Limits(agent_grace_s=5, run_grace_s=5, lease_ttl_s=1, stored_wait_s=5)
        return Fleet(catalog=a_catalog(*self.agents.values()), limits=limits)

    def settle(self) -> int:
        """Record decisions until none follows; return how many there were."""
        for count in range(100):
            facts = decide(self.state, self.now_ns, self.fleet())
            if not facts:
                return count
            for fact in facts:
                self.say(fact, decision_id(fact))
        raise AssertionError("it decides for ever")

    def cancel(self) -> None:
        """End it on request, unless it has ended."""
        if not self.state.is_ended:
            for fact in decide_cancel(self.state, "enough"):
                self.say(fact, decision_id(fact))

    def turn_agent(self) -> None:
        """Let an agent come, be lost, leave or start anew."""
        name = self.dice.choice(["a1", "a2"])
        state = self.dice.choice(["live", "live", "lost", "left"])
        incarnation = self.dice.choice(["i1", "i2"])
        self.agents[name] = an_agent(name, state=state, incarnation=incarnation)

    def any_run(self) -> Run | None:
        """Return any run, most likely one under way."""
        runs = list(self.state.runs.values())
        under_way = [run for run in runs if run.is_under_way]
        return self.dice.choice(under_way or runs) if runs else None

    def publish_report(self) -> None:
        """Let agent, collector or analyzer say something of a run, maybe of an older attempt."""
        run = self.any_run()
        if run is None:
            return
        attempt = max(1, run.attempt - self.dice.choice([0, 0, 0, 1]))
        fact = self.dice.choice(
            [
                ready_fact,
                completed_fact,
                completed_fact,
                failed_fact,
                stored_fact,
                short_fact,
                analysis_fact,
            ]
        )
        self.say(fact(run, attempt, self.dice))


def _about(run: Run, attempt: int) -> dict[str, object]:
    return {"evaluation": E, "run": run.plan.run, "attempt": attempt, "agent": run.agent or "a1"}


def _tally(dice: random.Random) -> Tally:
    queries = dice.randrange(4)
    return Tally(spans=dice.randrange(9), queries=queries, failed_queries=min(1, queries))


def ready_fact(run: Run, attempt: int, _: random.Random) -> Fact:
    return RunReady.model_validate(_about(run, attempt))


def completed_fact(run: Run, attempt: int, dice: random.Random) -> Fact:
    origin = ClockOrigin(monotonic_ns=1, epoch_start_ns=1)
    report = {"tally": _tally(dice), "origin": origin, "conditions": Conditions()}
    return RunCompleted.model_validate(_about(run, attempt) | report)


def failed_fact(run: Run, attempt: int, dice: random.Random) -> Fact:
    error = dice.choice(["worker_died", "worker_died", "predict"])
    report = {"error": error, "message": "x", "tally": _tally(dice)}
    return RunFailed.model_validate(_about(run, attempt) | report)


def stored_fact(run: Run, attempt: int, _: random.Random) -> Fact:
    counts = {"spans": 1, "queries": 2, "outputs": 3}
    return RunRecorded.model_validate(_about(run, attempt) | counts)


def short_fact(run: Run, attempt: int, dice: random.Random) -> Fact:
    counts = {"spans": 1, "queries": 2, "outputs": 3, "stored_batches": 1}
    batches = dice.choice([{"announced_batches": 2}, {"announced_batches": 0, "failed_queries": 1}])
    return RunIncomplete.model_validate(_about(run, attempt) | counts | batches)


def analysis_fact(_: Run, __: int, dice: random.Random) -> Fact:
    if dice.random() < 0.2:
        return AnalysisFailed(evaluation=E, cause="no rows")
    return AnalysisCompleted(evaluation=E, tables=("latency",))


def random_story(seed: int, turns: int = 60) -> Story:
    """Tell a story by the dice of a seed; not every story is over after so many turns."""
    story = Story(random.Random(seed))
    story.turn_agent()
    story.say(EvaluationRequested(evaluation=E, request=REQUEST, requested_ns=0))
    for _ in range(turns):
        story.settle()
        story.now_ns += int(story.dice.random() * S_NS)
        story.dice.choice([story.turn_agent, story.publish_report, story.publish_report])()
        if story.state.planned_ns and story.dice.random() < 0.02:
            story.cancel()
    story.settle()
    return story
