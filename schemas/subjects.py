"""Subjects of all messages. Only this module writes a subject.

    mlscope.v1.<entity>.<evaluation>[.<run>].<happened>[.<agent>]
    mlscope.v1.watch.<evaluation>.<event>        live events relayed to NATS clients, not stored
    mlscope.v1.resources.<evaluation>.<run>.used.<agent>    what a run uses now, not stored
    mlscope.v1.request.<verb>                    commands of the cluster's own user
    mlscope.v1.asked.<person>.<role>.<at most>.<per day>.<verb>    commands of a person
    mlscope.v1.request.agent.<agent>.<verb>      commands of the scheduler to one agent
    mlscope.v1.request.clock                     what an agent asks to compare its clock
    mlscope.v1.request.join.<agent>              the question of an invited machine
    mlscope.v1.request.retry.<durable>           an operator's order to handle a message again

A person sends `mlscope.v1.request.<verb>` too. The NATS server writes who it was into the subject
on the way to the services, so that nobody can claim to be another.

Tokens are `[A-Za-z0-9_-]`. One evaluation's decisions are `decisions_of(evaluation)`.
"""

from schemas.agent import AgentAnnounced, AgentLeft
from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.evaluation import EvaluationRequested, RunStarted
from schemas.live.resources import ResourcesUsed
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Command, Fact
from schemas.people import ROLES, THE_USER, Asker
from schemas.run import RunCompleted, RunFailed, RunIncomplete, RunReady, RunRecorded
from schemas.values.identity import token_of

ROOT = "mlscope.v1"
REQUEST = f"{ROOT}.request"
ASKED = f"{ROOT}.asked"
RESOURCES = "resources"
"""The entity of messages about what a run uses, which are not stored."""
WATCHED = "watch"
"""The entity of live events relayed to NATS clients, which are not stored."""


_FIELDS_OUTSIDE_RUNS = ("agent", "service", "person")
_RUN_FACTS_OF_AGENTS = (
    RunReady,
    RunCompleted,
    RunFailed,
    TraceCaptured,
    QueriesAnswered,
    OutputsPredicted,
)
_AGENT_LAST = (RunStarted, *_RUN_FACTS_OF_AGENTS)
AGENT_FACTS: tuple[type[Fact], ...] = (*_RUN_FACTS_OF_AGENTS, AgentAnnounced, AgentLeft)
"""The facts that agents publish, each on subjects that have the agent's name as a token."""
_NAMES_OF_AGENT_FACTS = frozenset((fact.entity, fact.happened) for fact in AGENT_FACTS)
_OF_EVALUATIONS = frozenset(("evaluation", "run", "analysis", "query", "output", "trace"))
"""The entities whose subjects name an evaluation after them."""


def subject_of(fact: Fact) -> str:
    """Return the subject of a fact."""
    if isinstance(fact, ManifestPublished):
        manifest = fact.manifest
        identity = [manifest_key(manifest.kind, manifest.name, manifest.version)]
    elif isinstance(fact, ManifestWithdrawn):
        identity = [manifest_key(fact.kind, fact.name, fact.version)]
    else:
        fields = ("evaluation", "run") if hasattr(fact, "evaluation") else _FIELDS_OUTSIDE_RUNS
        identity = [getattr(fact, name) for name in fields if hasattr(fact, name)]
    tokens = [ROOT, fact.entity, *identity, fact.happened]
    if isinstance(fact, _AGENT_LAST):
        tokens.append(str(fact.agent))
    return ".".join(tokens)


def agent_of(subject: str) -> str:
    """Return the agent in whose name a fact on `subject` is published.

    '' for facts of services alone, also for those about an agent or a run (`agent.NAME.lost`,
    `run.recorded`, `started`). The scheduler's answers of queries are in the name `scheduler`.
    """
    match subject.removeprefix(f"{ROOT}.").split("."):
        case [entity, _, _, happened, agent] | [entity, agent, happened]:
            return agent if (entity, happened) in _NAMES_OF_AGENT_FACTS else ""
    return ""


def place_of(subject: str) -> dict[str, str]:
    """Return what a line of a service's log says of a fact's `subject`: `evaluation` and `run`.

    Without `run` for a fact about an evaluation as a whole, empty for one about something else.
    """
    match subject.removeprefix(f"{ROOT}.").split("."):
        case [entity, evaluation, _] if entity in _OF_EVALUATIONS:
            return {"evaluation": evaluation}
        case [entity, evaluation, run, _, *_] if entity in _OF_EVALUATIONS:
            return {"evaluation": evaluation, "run": run}
    return {}


def manifest_key(kind: str, name: str, version: str) -> str:
    """Return a manifest's token: part of its subject, and its key in the catalog's bucket.

    The token is made of its `kind`, `name` and `version`.
    """
    return token_of(f"{kind}_{name}_{version}")


def command_subject(command: type[Command]) -> str:
    """Return the subject of a command."""
    return f"{REQUEST}.{command.verb}"


def asked_subject(asker: Asker, verb: str) -> str:
    """Return the subject on which a command with this `verb` of a named `asker` arrives."""
    return f"{ASKED}.{asker.name}.{asker.role}.{asker.at_most}.{asker.per_day}.{verb}"


def asked_by_people(verb: str) -> str:
    """Return the filter of the commands with this `verb` of all people."""
    return f"{ASKED}.*.*.*.*.{verb}"


def asker_of(subject: str) -> Asker:
    """Return who sent a command that arrived on `subject`, as the NATS server says.

    Raises ValueError for a subject of people that `asked_subject` did not write.
    """
    if not subject.startswith(f"{ASKED}."):
        return THE_USER
    name, role, at_most, per_day, _ = subject.removeprefix(f"{ASKED}.").split(".")
    (own_role,) = [possible for possible in ROLES if possible == role]
    return Asker(name, own_role, int(at_most), int(per_day))


def agent_command(agent: str, verb: str) -> str:
    """Return the subject of a command to one agent; `verb`: `start`, `stop`, `close`, `query`."""
    return f"{REQUEST}.agent.{agent}.{verb}"


def join_subject(agent: str) -> str:
    """Return the subject on which a machine asks to join as `agent`, by its invitation's key."""
    return f"{REQUEST}.join.{agent}"


def retry_subject(durable: str) -> str:
    """Return the subject on which an operator has a message of a `durable` handled again."""
    return f"{REQUEST}.retry.{durable}"


def watch_subject(evaluation: str, event: str) -> str:
    """Return the subject on which an `event` of a watched `evaluation` is relayed.

    `event` is `spans`, `gap`, `progress` or `end`, or `*` for all.
    """
    return f"{ROOT}.{WATCHED}.{evaluation}.{event}"


def resources_subject(message: ResourcesUsed) -> str:
    """Return the subject on which an agent says what a run uses."""
    tokens = (message.evaluation, message.run, "used", message.agent)
    return ".".join([ROOT, RESOURCES, *tokens])


def decisions_of(evaluation: str) -> str:
    """Return the filter of an evaluation's decisions, which only the scheduler publishes."""
    return f"{ROOT}.evaluation.{evaluation}.>"


def request_of(evaluation: str) -> str:
    """Return the subject of an evaluation's first fact: what was requested."""
    return f"{ROOT}.{EvaluationRequested.entity}.{evaluation}.{EvaluationRequested.happened}"


def story_of(evaluation: str) -> str:
    """Return the filter of all facts of an evaluation."""
    return f"{ROOT}.*.{evaluation}.>"


def facts_of(fact: type[Fact]) -> str:
    """Return the filter of all facts of an entity."""
    return f"{ROOT}.{fact.entity}.>"


def recorded_runs() -> str:
    """Return the filter of the facts that say that a run's rows are in the database."""
    return f"{ROOT}.run.*.*.{RunRecorded.happened}"


def counted_runs() -> tuple[str, str]:
    """Return the filters of the facts that say how many rows of an attempt were stored."""
    return recorded_runs(), f"{ROOT}.run.*.*.{RunIncomplete.happened}"


def attempt_batches(entity: str, evaluation: str, run: str) -> str:
    """Return the filter of the batches of a `run` in an `evaluation`.

    `entity` is their kind: `trace`, `query` or `output`.
    """
    return f"{ROOT}.{entity}.{evaluation}.{run}.>"
