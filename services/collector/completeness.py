"""Decides from counts in the database whether all batches of an attempt are stored. Pure."""

from dataclasses import dataclass

from schemas.run import RunIncomplete, RunRecorded


@dataclass(frozen=True, slots=True)
class StoredRows:
    """The number of rows of an attempt in the database."""

    spans: int
    queries: int
    outputs: int


@dataclass(frozen=True, slots=True)
class WaitingAttempt:
    """An attempt that ended and was not announced yet; it got no batch for `waited_s` seconds.

    `announced` and `stored` count its batches by kind: trace, query, output. `batches` counts all
    stored batches, also more than were announced. The agent of an interrupted attempt has not
    announced how many there are.
    """

    run_key: int
    evaluation: str
    run: str
    attempt: int
    cause: str
    announced: tuple[int, ...]
    stored: tuple[int, ...]
    rows: StoredRows
    waited_s: float
    batches: int = 0
    is_interrupted: bool = False

    @property
    def is_complete(self) -> bool:
        """Whether every announced batch is stored."""
        return self.stored == self.announced and not self.is_interrupted


def decide(waiting: WaitingAttempt, deadline_s: float) -> RunRecorded | RunIncomplete | None:
    """Return the fact to publish about an attempt now; None means to wait.

    After `deadline_s` seconds without a batch an attempt counts as incomplete, also an interrupted
    one.
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
