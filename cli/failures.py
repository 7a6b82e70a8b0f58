"""Errors as an exit code and a message for the user."""

from dataclasses import dataclass
from subprocess import CalledProcessError

from cli import exits
from cli.cluster.errors import ClusterError
from mlscope.assets.errors import FetchError
from mlscope.backup.errors import BackupError
from mlscope.bus.errors import BusError, KeyRevoked, NotPermitted
from mlscope.client.errors import (
    ClientError,
    CommandRefused,
    Denied,
    NoSuchTable,
    StillRunning,
)
from mlscope.errors import UnsuitableDatabase
from mlscope.settings import InvalidSetting
from schemas.encoding.errors import SchemaError
from schemas.request import Refused
from services.agent.errors import FetchFailed, NameTaken
from services.analyzer.errors import AnalysisTooLong

_REFUSAL_CODES = {
    "malformed": exits.USAGE,
    "invalid": exits.USAGE,
    "unknown": exits.USAGE,
    "unsatisfiable": exits.NO_AGENT,
    "forbidden": exits.AUTH,
}
"""Exit codes by the kind of a refusal, where they are not FAILED."""


class Misused(Exception):
    """An argument is wrong; the message names it and its allowed values."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The exit code and the message of a command that failed."""

    code: int
    text: str


def explain(error: Exception) -> Failure | None:
    """Return the exit code and message for `error`; None when it is a defect of mlscope."""
    match error:
        case CommandRefused(refused=refused):
            code = _REFUSAL_CODES.get(refused.error, exits.FAILED)
            return Failure(code, refusal_text(refused))
        case Denied() | NotPermitted() | KeyRevoked():
            return Failure(exits.AUTH, str(error))
        case StillRunning():
            next_step = f"`mlscope watch {error.evaluation}` continues watching"
            return Failure(exits.FAILED, f"{error}; {next_step}")
        case Misused() | NoSuchTable() | InvalidSetting() | SchemaError():
            return Failure(exits.USAGE, str(error))
        case OSError(filename=str(name), strerror=str(reason)):
            return Failure(exits.FAILED, f"{name}: {reason}")
        case (
            AnalysisTooLong()
            | NameTaken()
            | FetchError()
            | FetchFailed()
            | ClientError()
            | BusError()
            | ClusterError()
            | UnsuitableDatabase()
            | BackupError()
            | OSError()
        ):
            return Failure(exits.FAILED, str(error))
        case CalledProcessError():
            return Failure(exits.FAILED, f"`{' '.join(error.cmd[1:])}` failed; see its output")
    return None


def refusal_text(refused: Refused) -> str:
    """Return a refusal in lines: the message, the field, what is allowed, each agent's reason.

    A message that suggests a name stands alone: what is allowed may be a long list.
    """
    if "did you mean" in refused.message:
        return refused.message
    message = refused.message
    if refused.agents:
        # The message ends with the agents' reasons, which follow below, a line each.
        first_reason = f"{refused.agents[0].agent}: {refused.agents[0].reason}"
        message = message.partition(first_reason)[0].rstrip(" :") or message
    lines = [message if refused.error == "unknown" else f"{refused.error}: {message}"]
    fields = {"field": refused.field, "found": refused.found, "allowed": refused.allowed}
    lines += [
        f"  {name}: {text}" for name, text in fields.items() if text and text not in refused.message
    ]
    lines += [f"  {agent.agent}: {agent.reason}" for agent in refused.agents]
    return "\n".join(lines)
