"""The spans of samples that processes prepared, and what a reader must know of these processes."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import repeat

import numpy as np
import numpy.typing as npt

from mlscope.tracing.spans import NO_ATTRIBUTES, Row
from schemas.level import Level
from services.agent.worker.queries.query import Query

Stamps = npt.NDArray[np.int64]


@dataclass(slots=True)
class PreparedBy:
    """Who prepared the samples of one run's streamed queries."""

    #: 0: threads of the predicting process
    processes: int = 0
    #: how long they prepared, summed
    busy_ns: int = 0
    #: processes that ended, and samples that were given to another one
    deaths: int = 0
    retries: int = 0
    #: why threads did where processes were asked for
    refusal: str = ""

    @property
    def conditions(self) -> dict[str, int]:
        """The conditions of the run that it changes."""
        if not self.processes:
            return {}
        return {
            "prepare_processes": self.processes,
            "prepare_busy_ns": self.busy_ns,
            "prepare_threads": 0,
        }

    @property
    def notes(self) -> list[str]:
        """What a reader of the run must know."""
        notes = []
        if self.refusal:
            notes.append(
                "samples were prepared in threads of the predicting process, which slows it down:"
                f" {self.refusal}"
            )
        if self.deaths:
            notes.append(
                f"{self.deaths} processes that prepared samples ended, {self.retries} samples were"
                " tried again: latencies include that"
            )
        return notes


@dataclass(frozen=True, slots=True)
class PreparedSteps:
    """When the samples of a query were prepared: what their spans are made of, after the clock."""

    first_span: int
    query: int
    block: int
    #: (sample, step, 2): when each began and ended (CLOCK_MONOTONIC ns); 0 of one that did not run
    stamps: Stamps
    #: by sample: the native id of the thread that the steps ran on
    threads: Stamps

    @classmethod
    def of(cls, query: Query, stamps: Stamps, threads: Stamps) -> "PreparedSteps":
        """Return those of a `query`, of whose slot the `stamps` and `threads` are copied."""
        count = len(query.samples)
        copies = stamps[:count].copy(), threads[:count].copy()
        return cls(query.first_span, query.index, query.block, *copies)


def prepared_rows(prepared: PreparedSteps, names: Sequence[int]) -> list[Row]:
    """Return the spans of the steps that ran; `names` are the ids of the names of one sample's."""
    count, steps = len(prepared.threads), len(names)
    times = prepared.stamps.reshape(count * steps, 2)
    ran = np.flatnonzero(times[:, 0])
    began, ended = times[ran].T
    return list(
        zip(
            (ran + (prepared.first_span + 1)).tolist(),
            repeat(prepared.first_span),
            repeat(Level.MODEL),
            np.tile(names, count)[ran].tolist(),
            began.tolist(),
            (ended - began).tolist(),
            np.repeat(prepared.threads, steps)[ran].tolist(),
            repeat(prepared.query),
            repeat(prepared.block),
            repeat(NO_ATTRIBUTES),
        )
    )
