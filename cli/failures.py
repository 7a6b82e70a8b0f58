"""Errors as an exit code and a sentence with the next step."""

from dataclasses import dataclass
from subprocess import CalledProcessError

from cli import exits
from cli.cluster.errors import ClusterError
from mlscope.assets.errors import AssetError
from mlscope.bus.errors import BusError, NotPermitted
from mlscope.client.errors import (
    ClientError,
    CommandRefused,
    Denied,
    NoSuchTable,
    StillRunning,
)
from mlscope.errors import UnsuitableDatabase
from mlscope.settings import InvalidSetting
from schemas.errors import SchemaError
from schemas.request import Refused
from services.agent.errors import AssetUnusable, NameTaken

_USAGE = frozenset({"malformed", "invalid", "unknown"})


class Misused(Exception):
    """An argument is wrong; the message says which and what it may be."""


@dataclass(frozen=True, slots=True)
class Failure:
    """How a command ends that could not do its work."""

    code: int
    text: str


def explain(error: Exception) -> Failure | None:
    """Return how to end on an error; None for one that is a defect of ours."""
    match error:
        case CommandRefused():
            return Failure(_refusal_code(error.refused), refusal_text(error.refused))
        case Denied() | NotPermitted():
            return Failure(exits.AUTH, str(error))
        case StillRunning():
            next_step = f"`mlscope watch {error.evaluation}` goes on watching"
            return Failure(exits.FAILED, f"{error}; {next_step}")
        case Misused() | NoSuchTable() | InvalidSetting() | SchemaError():
            return Failure(exits.USAGE, str(error))
        case OSError(filename=str(name), strerror=str(why)):
            return Failure(exits.FAILED, f"{name}: {why}")
        case NameTaken():
            return Failure(exits.FAILED, str(error))
        case (
            AssetError()
            | AssetUnusable()
            | ClientError()
            | BusError()
            | ClusterError()
            | UnsuitableDatabase()
            | OSError()
        ):
            return Failure(exits.FAILED, str(error))
        case CalledProcessError():
            return Failure(exits.FAILED, f"`{' '.join(error.cmd[1:])}` failed, see above")
    return None


def _refusal_code(refused: Refused) -> int:
    if refused.error == "unsatisfiable":
        return exits.NO_AGENT
    return exits.USAGE if refused.error in _USAGE else exits.FAILED


def refusal_text(refused: Refused) -> str:
    """Return a refusal in lines: what is wrong, what is allowed, and each agent's reason."""
    lines = [f"{refused.error}: {_without_reasons(refused)}"]
    if refused.field and refused.field not in refused.message:
        lines.append(f"  field: {refused.field}")
    if refused.found and refused.found not in refused.message:
        lines.append(f"  found: {refused.found}")
    if refused.allowed and refused.allowed not in refused.message:
        lines.append(f"  allowed: {refused.allowed}")
    lines += [f"  {agent.agent}: {agent.reason}" for agent in refused.agents]
    return "\n".join(lines)


def _without_reasons(refused: Refused) -> str:
    """Return the message as far as the agents' reasons, which follow a line each."""
    if not refused.agents:
        return refused.message
    first = f"{refused.agents[0].agent}: {refused.agents[0].reason}"
    return refused.message.partition(first)[0].rstrip(" :") or refused.message
