"""How samples are shared among processes, and how many processes there are. Pure."""

import math
from collections.abc import Sequence

LEAST_SLOTS = 3
"""Batches on their way at a time: one being prepared, one predicted, one finished."""
MOST_IN_FLIGHT = 64
"""Queries in flight that have a slot; further ones wait for one."""
_HEADROOM = 2.0
"""Processes for each that preparation needs: samples differ, cores are shared, and the call timed
before is slower than later ones. With 1.5 models on an H200 waited for samples (0.85 of the bound).
One that has nothing to do costs its memory alone.
"""

QUICK_FINISH_NS = 500_000
"""Finishing a query that takes the processor for less is done between two calls of the model: to
hand it to another thread and process takes as much, and takes it while the model is called.
"""


def is_quick_finish(finish_ns: int) -> bool:
    """Whether the thread that predicts finishes a query, which takes the processor so long."""
    return finish_ns < QUICK_FINISH_NS


def shares(backlogs: Sequence[int], count: int) -> list[int]:
    """Return how many of `count` samples each process gets, so that all end at about one time.

    `backlogs` are the samples that each has still to prepare: a slow process gets fewer.
    """
    counts = [0] * len(backlogs)
    level, order = 0, sorted(range(len(backlogs)), key=backlogs.__getitem__)
    for taking in range(1, len(order) + 1):
        total = count + sum(backlogs[number] for number in order[:taking])
        level, remainder = divmod(total, taking)
        if taking == len(order) or level <= backlogs[order[taking]]:
            for place, number in enumerate(order[:taking]):
                counts[number] = max(0, level + (place < remainder) - backlogs[number])
            break
    return counts


def processes_for(cores: int, predicting: int, needed: int, limit: int) -> int:
    """Return how many processes prepare samples, at least one.

    They get the `cores` that the framework's `predicting` threads and the worker's own thread
    leave, at most as many as preparation has `needed`, and at most `limit`. `predicting` is 0 where
    the model computes on a device of its own: two processes do not disturb a thread that launches
    and waits, even on its core, because their priority is lower (`benchmarks.feeding`).
    """
    free = cores - predicting - 1 if predicting else max(cores - 2, min(cores, 2))
    return max(1, min(free, needed, limit))


def slots_for(batch_size: int, processes: int, in_flight: int) -> int:
    """Return how many batches of `batch_size` are on their way at a time.

    As many as give all `processes` samples to prepare, one behind them, so that no process waits
    for the last one of a batch, while two more batches are predicted and one finished; no more than
    the `in_flight` queries need, and at least `LEAST_SLOTS`.
    """
    return max(LEAST_SLOTS, min(math.ceil(processes / batch_size) + 4, in_flight))


def needed_processes(prepare_ns: int, predict_ns: int, limit: int) -> int:
    """Return how many processes keep a model supplied: a batch takes `prepare_ns` in one of them.

    `predict_ns` is what the model takes for a batch; `limit` is the answer where a time is unknown,
    0. One more than needed, so that a sample that takes long holds up none.
    """
    if not prepare_ns or not predict_ns:
        return limit
    return min(limit, 1 + math.ceil(_HEADROOM * prepare_ns / predict_ns))
