"""The only place that spells a subject.

    mlscope.v1.<entity>.<evaluation>[.<run>].<happened>[.<agent>]
    mlscope.v1.request.<verb>                    commands anyone may send
    mlscope.v1.request.agent.<agent>.<verb>      commands of the scheduler to one agent

Tokens are `[A-Za-z0-9_-]`. One evaluation's decisions are `decisions_of(evaluation)`.
"""

from schemas.batch import OutputsPredicted, QueriesAnswered, TraceCaptured
from schemas.evaluation import RunStarted
from schemas.identity import token_of
from schemas.manifest import ManifestPublished, ManifestWithdrawn
from schemas.message import Command, Fact
from schemas.run import RunCompleted, RunFailed, RunReady

ROOT = "mlscope.v1"
REQUEST = f"{ROOT}.request"


_AGENT_LAST = (
    RunStarted,
    RunReady,
    RunCompleted,
    RunFailed,
    TraceCaptured,
    QueriesAnswered,
    OutputsPredicted,
)


def subject_of(fact: Fact) -> str:
    """Return the one subject a fact is published under."""
    tokens = [ROOT, fact.entity, *_identity_of(fact), fact.happened]
    if isinstance(fact, _AGENT_LAST):
        tokens.append(str(fact.agent))
    return ".".join(tokens)


def _identity_of(fact: Fact) -> list[str]:
    if isinstance(fact, ManifestPublished):
        return [manifest_key(fact.manifest.kind, fact.manifest.name, fact.manifest.version)]
    if isinstance(fact, ManifestWithdrawn):
        return [manifest_key(fact.kind, fact.name, fact.version)]
    fields = ("evaluation", "run") if hasattr(fact, "evaluation") else ("agent", "service")
    return [getattr(fact, name) for name in fields if hasattr(fact, name)]


def manifest_key(kind: str, name: str, version: str) -> str:
    """Return a manifest's token: subject part and key in the catalog's bucket."""
    return token_of(f"{kind}_{name}_{version}")


def command_subject(command: type[Command]) -> str:
    """Return where a command is sent."""
    return f"{REQUEST}.{command.verb}"


def agent_command(agent: str, verb: str) -> str:
    """Return where the scheduler commands one agent: `start`, `stop`, `close`, `query`."""
    return f"{REQUEST}.agent.{agent}.{verb}"


def decisions_of(evaluation: str) -> str:
    """Return the filter of an evaluation's decisions: what its writer guards."""
    return f"{ROOT}.evaluation.{evaluation}.>"


def story_of(evaluation: str) -> str:
    """Return the filter of everything said of an evaluation."""
    return f"{ROOT}.*.{evaluation}.>"


def facts_of(fact: type[Fact]) -> str:
    """Return the filter of every fact of an entity."""
    return f"{ROOT}.{fact.entity}.>"


def attempt_batches(entity: str, evaluation: str, run: str) -> str:
    """Return the filter of a run's batches of one entity (`trace`, `query`, `output`)."""
    return f"{ROOT}.{entity}.{evaluation}.{run}.>"
