"""What can be wrong with what a collector is given."""


class CollectorError(Exception):
    """A batch or a run cannot be stored."""


class MisshapenBatch(CollectorError):
    """A batch's columns do not fit its count, or its texts their rows."""


class DatabaseAway(CollectorError):
    """The database does not answer, or is not provisioned; it may come back."""


class DatabaseFull(DatabaseAway):
    """The database has no room left; somebody may make some."""


class RefusedRows(CollectorError):
    """The database takes no such rows: they are what is wrong, not it."""


class UnknownEvaluation(CollectorError):
    """The log knows nothing of an evaluation, or not yet of its plan."""

    def __init__(self, evaluation: str) -> None:
        """Name the evaluation."""
        self.evaluation = evaluation
        super().__init__(f"evaluation {evaluation} is not in the log")


class UnstartedAttempt(CollectorError):
    """An attempt that no agent was asked for, or the log does not tell of yet."""

    def __init__(self, evaluation: str, run: str, attempt: int) -> None:
        """Name the attempt."""
        self.evaluation, self.run, self.attempt = evaluation, run, attempt
        super().__init__(f"evaluation {evaluation} started no attempt {attempt} of {run}")


class ForeignFact(CollectorError):
    """Somebody speaks of an attempt that another agent has."""

    def __init__(self, says: str, run: str, attempt: int, agent: str) -> None:
        """Name who says it, of what, and the agent that may."""
        self.says, self.run, self.attempt, self.agent = says, run, attempt, agent
        super().__init__(f"{says} says it of {run}, attempt {attempt}, which {agent} has")


class UnplannedRun(CollectorError):
    """A run that no plan holds."""

    def __init__(self, evaluation: str, run: str) -> None:
        """Name the evaluation and the run."""
        self.evaluation, self.run = evaluation, run
        super().__init__(f"evaluation {evaluation} plans no run {run}")
