"""What can go wrong for someone who asks."""

from schemas.request import AgentReason, Refused


class ClientError(Exception):
    """The client could not do what was asked."""


class NoCluster(ClientError):
    """Nothing says where mlscope runs: no settings, and no cluster in the data folder."""

    def __init__(self, data: str) -> None:
        """Name the data folder that was looked into."""
        self.data = data
        super().__init__(
            f"no cluster in {data}; start one with `mlscope up --detach`, "
            "or set MLSCOPE_NATS_URL and MLSCOPE_NATS_SEED_FILE"
        )


class ForeignCluster(NoCluster):
    """Another user wrote what the data folder says of its cluster."""

    def __init__(self, data: str, owner: int) -> None:
        """Name the data folder and the `owner` (uid) of its state."""
        super().__init__(data)
        whose = f"{data}/cluster.json is another user's (uid {owner}), and may lead you anywhere"
        advice = "run as that user, or set MLSCOPE_NATS_URL and MLSCOPE_NATS_SEED_FILE"
        self.args = (f"{whose}; {advice}",)


class NotAnswering(ClientError):
    """The cluster is not there, or the service that owns this verb is not."""

    def __init__(self, verb: str, reason: str) -> None:
        """Name the verb that was asked and what the bus said."""
        self.verb = verb
        self.reason = reason
        super().__init__(f"{verb}: {reason}; `mlscope status` shows which services run")


class NoBroker(NotAnswering):
    """The message broker, over which every service is asked, is not there."""

    def __init__(self, verb: str, place: str) -> None:
        """Name the verb that was to be asked, and where the broker was looked for."""
        super().__init__(verb, place)
        message = f"{verb}: the message broker does not answer ({place})"
        self.args = (f"{message}; `mlscope status` shows which services run",)


class OtherVersion(NotAnswering):
    """An answer is not as this version of mlscope has it."""

    def __init__(self, verb: str, difference: str) -> None:
        """Name the verb that was asked and where the answer differs."""
        super().__init__(verb, difference)
        message = f"{verb}: the answer is of another version of mlscope ({difference})"
        self.args = (f"{message}; install the same version on all machines",)


class TraceChanged(ClientError):
    """More spans of a run were stored while a window of it was read."""

    def __init__(self, evaluation: str, run: str) -> None:
        """Name the evaluation and its run."""
        self.evaluation, self.run = evaluation, run
        super().__init__(f"spans of {run or evaluation} were stored meanwhile; ask again")


class Denied(ClientError):
    """The key in use may not ask this."""

    def __init__(self, verb: str, reason: str) -> None:
        """Name the verb that was asked and what the server said."""
        self.verb = verb
        self.reason = reason
        super().__init__(f"{verb}: {reason}")


class CommandRefused(ClientError):
    """A service understood and said no; the fields are those of `Refused`."""

    def __init__(self, refused: Refused) -> None:
        """Keep the refusal as it came; the text names what is allowed, without a suggestion."""
        self.refused = refused
        message, allowed = refused.message, refused.allowed
        is_complete = not allowed or allowed in message or "did you mean" in message
        super().__init__(message if is_complete else f"{message}; allowed: {allowed}")

    @property
    def error(self) -> str:
        """What was wrong: one of the words of `Refused.error`."""
        return self.refused.error

    @property
    def field(self) -> str:
        """The field that offends, '' when none does."""
        return self.refused.field

    @property
    def agents(self) -> tuple[AgentReason, ...]:
        """Why each agent can't run the request."""
        return self.refused.agents


class EvaluationRefused(CommandRefused):
    """The request to evaluate was not accepted."""


class NoSuchTable(ClientError):
    """The evaluation has no table of that name (yet)."""

    def __init__(self, name: str, available: tuple[str, ...]) -> None:
        """Name the table and those there are."""
        self.name = name
        self.available = available
        super().__init__(f"no table {name!r}; known tables: {', '.join(available) or 'none yet'}")


class StillRunning(ClientError):
    """The evaluation did not end within the wait; it goes on."""

    def __init__(self, evaluation: str, waited_s: float) -> None:
        """Name the evaluation and how long was waited."""
        self.evaluation = evaluation
        self.waited_s = waited_s
        super().__init__(f"evaluation {evaluation} is still running after {waited_s:g} s")


class NoScenario(ClientError):
    """A text is no scenario."""

    def __init__(self, text: str, part: str) -> None:
        """Name the whole text, and the part that is no parameter."""
        self.text, self.part = text, part
        super().__init__(f"{text}: {part}: expected KEY=VALUE")
