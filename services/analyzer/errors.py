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
