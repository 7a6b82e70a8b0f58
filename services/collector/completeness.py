"""Whether every announced batch of an attempt is stored: decided from numbers in the database."""

from dataclasses import dataclass

from schemas.run import RunIncomplete, RunRecorded


@dataclass(frozen=True, slots=True)
class Stored:
    """Rows of an attempt in the database."""

    spans: int
    queries: int
    outputs: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """An attempt that ended and nobody announced; for `waited_s` no batch of it came.

    Batches are by kind: trace, query, output; `batches` counts all, also those beyond announced.
    Of one that was interrupted its agent has not said, so far, how many there are.
    """

    run_key: int
    evaluation: str
    run: str
    attempt: int
    cause: str
    announced: tuple[int, ...]
    stored: tuple[int, ...]
    rows: Stored
    waited_s: float
    batches: int = 0
    is_interrupted: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every announced batch is stored."""
        return self.stored == self.announced and not self.is_interrupted


def decide(waiting: Waiting, deadline_s: float) -> RunRecorded | RunIncomplete | None:
    """Return what is to be said of an attempt now; None means to wait on.

    An interrupted one whose agent is silent past the deadline, too, counts with what is there.
    """
    if waiting.is_complete:
        return RunRecorded(
            evaluation=waiting.evaluation,
            run=waiting.run,
            attempt=waiting.attempt,
            spans=waiting.rows.spans,
            queries=waiting.rows.queries,
            outputs=waiting.rows.outputs,
        )
    if waiting.waited_s < deadline_s:
        return None
    return RunIncomplete(
        evaluation=waiting.evaluation,
        run=waiting.run,
        attempt=waiting.attempt,
        spans=waiting.rows.spans,
        queries=waiting.rows.queries,
        outputs=waiting.rows.outputs,
        announced_batches=sum(waiting.announced),
        stored_batches=waiting.batches if waiting.is_interrupted else sum(waiting.stored),
    )
