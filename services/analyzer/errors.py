"""Errors of the analyzer."""


class AnalyzerError(Exception):
    """Tables can't be computed or read."""


class DatabaseAway(AnalyzerError):
    """The database does not answer or is not provisioned; it may come back."""


class NoRuns(AnalyzerError):
    """The database holds no run of this evaluation."""

    def __init__(self, evaluation: str) -> None:
        """Name the evaluation."""
        self.evaluation = evaluation
        super().__init__(f"no run of evaluation {evaluation} is in the database")


class RowsMissing(AnalyzerError):
    """The database has fewer rows of a run than were stored; the collector may get them back."""

    def __init__(self, run: str, kind: str, rows: int, stored_rows: int) -> None:
        """Name the `run` and the `kind` (`queries`, `spans`): `rows` are here of `stored_rows`."""
        self.run, self.kind, self.rows, self.stored_rows = run, kind, rows, stored_rows
        super().__init__(
            f"the database has {rows} of {stored_rows} stored {kind} of run {run}: it was "
            "restored from an older backup, or emptied"
        )


class CountMissing(RowsMissing):
    """The log says that the rows of a run were counted, and the database does not yet."""

    def __init__(self, run: str) -> None:
        """Name the `run`."""
        super().__init__(run, "counts", 0, 1)


class AnalysisTooLong(AnalyzerError):
    """The tables of an evaluation are not computed in time: what an agent sent may never end."""

    def __init__(self, limit_s: float) -> None:
        """Give the limit."""
        self.limit_s = limit_s
        setting = "half of MLSCOPE_ANALYSIS_WAIT_S"
        super().__init__(f"its tables were not computed within {limit_s:g} s, {setting}")


class NotAlike(AnalyzerError):
    """Two evaluations can't be compared."""

    def __init__(self, subject: str, reason: str) -> None:
        """Name the `subject` that differs (dataset, samples, answers …), and the reason."""
        self.subject, self.reason = subject, reason
        super().__init__(reason)


class NoSuchSpan(AnalyzerError):
    """A run has no span with this id."""

    def __init__(self, run: str, span: int) -> None:
        """Name the run and the requested span."""
        self.run, self.span = run, span
        super().__init__(f"run {run} has no span {span}")


class NoSuchRun(AnalyzerError):
    """The database holds no such run, or none with stored answers."""

    def __init__(self, evaluation: str, run: str) -> None:
        """Name the evaluation and the requested run; '' for any run."""
        self.evaluation, self.run = evaluation, run
        super().__init__(
            f"evaluation {evaluation} has no run {run} in the database"
            if run
            else f"no run of evaluation {evaluation} is in the database"
        )
