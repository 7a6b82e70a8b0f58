"""An evaluation's decisions. Only the scheduler says these, one at a time, guarded by sequence."""

from typing import Literal

from schemas.identity import Token
from schemas.message import Fact, Message
from schemas.plan import Plan
from schemas.request import AgentReason, Evaluate

RunEnd = Literal["completed", "failed", "incomplete", "cancelled"]


class EvaluationRequested(Fact):
    """Somebody asked, and the request is sound."""

    entity = "evaluation"
    happened = "requested"
    evaluation: Token
    request: Evaluate
    requested_ns: int


class EvaluationPostponed(Fact):
    """No agent fits now; the request says to wait until `until_ns` (epoch)."""

    entity = "evaluation"
    happened = "postponed"
    evaluation: Token
    agents: tuple[AgentReason, ...]
    until_ns: int


class EvaluationPlanned(Fact):
    """Matched and planned: which agent runs what."""

    entity = "evaluation"
    happened = "planned"
    evaluation: Token
    plan: Plan


class RunStarted(Fact):
    """A run was given to an agent, for the `attempt`-th time."""

    entity = "evaluation"
    happened = "started"
    evaluation: Token
    run: Token
    session: Token
    attempt: int
    agent: Token
    #: the agent's start this attempt belongs to; a newer one has forgotten it
    incarnation: str = ""
    started_ns: int


class RunInterrupted(Fact):
    """An attempt ended without its agent's word: agent lost, issuer lost, time-out, cancellation.

    It is kept and marked; `final` says that no other attempt follows.
    """

    entity = "evaluation"
    happened = "interrupted"
    evaluation: Token
    run: Token
    attempt: int
    agent: Token
    cause: str
    final: bool = False


class RunIssued(Fact):
    """A scheduler took on issuing the load of a remote run; `issuer` holds a lease meanwhile."""

    entity = "evaluation"
    happened = "issued"
    evaluation: Token
    run: Token
    attempt: int
    issuer: Token


class MeasuredRun(Message):
    """How one run ended: its last attempt, and the rows the database holds of it."""

    run: Token
    attempt: int
    end: RunEnd
    agent: Token
    spans: int = 0
    queries: int = 0
    cause: str = ""


class EvaluationMeasured(Fact):
    """Every run has ended and is stored; the analyzer's cue."""

    entity = "evaluation"
    happened = "measured"
    evaluation: Token
    runs: tuple[MeasuredRun, ...]


class EvaluationAnalyzed(Fact):
    """The tables are there: a good end."""

    entity = "evaluation"
    happened = "analyzed"
    evaluation: Token
    tables: tuple[str, ...]


class EvaluationFailed(Fact):
    """A bad end, and its cause."""

    entity = "evaluation"
    happened = "failed"
    evaluation: Token
    cause: str
    agents: tuple[AgentReason, ...] = ()


class EvaluationCancelled(Fact):
    """Ended on request."""

    entity = "evaluation"
    happened = "cancelled"
    evaluation: Token
    reason: str = ""
