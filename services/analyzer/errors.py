"""What can go wrong when rows become tables."""


class AnalyzerError(Exception):
    """No tables can be made or read."""


class DatabaseAway(AnalyzerError):
    """The database does not answer, or is not provisioned; it may come back."""


class NoRuns(AnalyzerError):
    """The database holds no run of this evaluation."""

    def __init__(self, evaluation: str) -> None:
        """Name the evaluation."""
        self.evaluation = evaluation
        super().__init__(f"no run of evaluation {evaluation} is in the database")


class NotAlike(AnalyzerError):
    """Two evaluations can't be compared."""

    def __init__(self, what: str, why: str) -> None:
        """Name what is not alike, and how it differs."""
        self.what, self.why = what, why
        super().__init__(why)


class NoSuchRun(AnalyzerError):
    """The database holds no such run, or none that kept answers."""

    def __init__(self, evaluation: str, run: str) -> None:
        """Name the evaluation, and the run that was asked for, '' for any."""
        self.evaluation, self.run = evaluation, run
        super().__init__(
            f"evaluation {evaluation} has no run {run} in the database"
            if run
            else f"no run of evaluation {evaluation} is in the database"
        )
