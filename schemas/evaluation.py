"""Decisions on an evaluation.

Only the scheduler publishes them, one at a time, guarded by the log's sequence number.
"""

from typing import Literal

from schemas.analysis import Headline
from schemas.message import Fact, Message
from schemas.plan import Plan
from schemas.request import AgentReason, Evaluate
from schemas.values.identity import Token

RunEnd = Literal["completed", "failed", "incomplete", "cancelled"]


class EvaluationRequested(Fact):
    """A valid request was accepted."""

    entity = "evaluation"
    happened = "requested"
    evaluation: Token
    request: Evaluate
    requested_ns: int
    #: the person who asked, as the NATS server or the gateway's login says; '' the cluster's user
    requested_by: str = ""


class EvaluationPostponed(Fact):
    """No agent is suitable now; the request allows waiting until `until_ns` (epoch)."""

    entity = "evaluation"
    happened = "postponed"
    evaluation: Token
    agents: tuple[AgentReason, ...]
    until_ns: int


class EvaluationPlanned(Fact):
    """The evaluation is planned: which agent runs what.

    A plan with a `revision` holds the one before it and further sessions.
    """

    entity = "evaluation"
    happened = "planned"
    evaluation: Token
    plan: Plan
    #: of a plan that was extended, the number of its sessions; 0 is the first plan
    revision: int = 0


class RunStarted(Fact):
    """A run was given to an agent; `attempt` counts from 1."""

    entity = "evaluation"
    happened = "started"
    evaluation: Token
    run: Token
    session: Token
    attempt: int
    agent: Token
    #: the agent's start that got this attempt; a later one does not know it
    incarnation: str = ""
    started_ns: int


class RunInterrupted(Fact):
    """An attempt ended with no report from its agent: agent or issuer lost, time-out, cancellation.

    Its data are kept and marked; `final` is true if no other attempt follows.
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
    """A scheduler began to issue the load of a remote run; `issuer` holds a lease meanwhile."""

    entity = "evaluation"
    happened = "issued"
    evaluation: Token
    run: Token
    attempt: int
    issuer: Token


class MeasuredRun(Message):
    """How one run ended: its last attempt, and how many rows the database has of it."""

    run: Token
    attempt: int
    end: RunEnd
    agent: Token
    spans: int = 0
    queries: int = 0
    cause: str = ""


class EvaluationMeasured(Fact):
    """Every run has ended and is stored; the analyzer may start.

    After a cancellation it names the complete runs, and those that it cut off after some queries
    (`cancelled`); it comes once the rows of these are counted.
    """

    entity = "evaluation"
    happened = "measured"
    evaluation: Token
    runs: tuple[MeasuredRun, ...]


class EvaluationAnalyzed(Fact):
    """The evaluation's tables are stored: it succeeded, or was cancelled with rows."""

    entity = "evaluation"
    happened = "analyzed"
    evaluation: Token
    tables: tuple[str, ...]
    headlines: tuple[Headline, ...] = ()


NO_AGENT_FITS = "no agent fits"
NO_AGENT_KNOWN = "no agent is known"
"""Causes of an evaluation that no agent ran, after it waited for one."""


class EvaluationFailed(Fact):
    """The evaluation failed, with the cause."""

    entity = "evaluation"
    happened = "failed"
    evaluation: Token
    cause: str
    agents: tuple[AgentReason, ...] = ()


class EvaluationCancelled(Fact):
    """The evaluation was cancelled on request."""

    entity = "evaluation"
    happened = "cancelled"
    evaluation: Token
    reason: str = ""
    #: the person who cancelled it; '' the cluster's user
    cancelled_by: str = ""
