"""Errors of the collector."""


class CollectorServiceError(Exception):
    """A batch or a run can't be stored."""


class MisshapenBatch(CollectorServiceError):
    """The columns of a batch do not match its count, or its texts do not match their rows."""


class DatabaseAway(CollectorServiceError):
    """The database does not answer, or is not provisioned; retry later."""


class DatabaseFull(DatabaseAway):
    """The database is out of space; free some, then retry."""


class RefusedRows(CollectorServiceError):
    """The database refuses rows because of their content; a retry does not help."""


class UnknownEvaluation(CollectorServiceError):
    """An evaluation, or its plan, is not in the log (yet)."""

    def __init__(self, evaluation: str) -> None:
        """Give the evaluation's id."""
        self.evaluation = evaluation
        super().__init__(f"evaluation {evaluation} is not in the log")


class UnstartedAttempt(CollectorServiceError):
    """The log does not contain the start of an attempt (yet)."""

    def __init__(self, evaluation: str, run: str, attempt: int) -> None:
        """Give the `evaluation`, the `run` and the number of the `attempt`."""
        self.evaluation, self.run, self.attempt = evaluation, run, attempt
        super().__init__(f"evaluation {evaluation} started no attempt {attempt} of {run}")


class ForeignFact(CollectorServiceError):
    """A fact about an attempt does not come from the agent that runs the attempt."""

    def __init__(self, speaker: str, run: str, attempt: int, agent: str) -> None:
        """Give the `speaker`, the `run` and `attempt`, and the `agent` that runs the attempt."""
        self.speaker, self.run, self.attempt, self.agent = speaker, run, attempt, agent
        super().__init__(
            f"{speaker} published a fact about {run}, attempt {attempt}, which {agent} runs"
        )


class UnplannedRun(CollectorServiceError):
    """A run that is not in the plan of its evaluation."""

    def __init__(self, evaluation: str, run: str) -> None:
        """Give the ids of the evaluation and the run."""
        self.evaluation, self.run = evaluation, run
        super().__init__(f"evaluation {evaluation} plans no run {run}")
