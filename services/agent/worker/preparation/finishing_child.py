"""A post-processing process: outputs come, answers go back (I/O)."""

import socket
import threading
from contextlib import suppress
from typing import Any

from mlscope.tracing.clock import now_ns
from services.agent.errors import SAMPLE_ERRORS
from services.agent.worker.answers.non_finite import output_named
from services.agent.worker.preparation.finishing_wire import Finished, received, send
from services.agent.worker.queries.pipeline import Pipeline


def can_finish_apart(pipeline: Pipeline) -> bool:
    """Whether the steps behind a model need its outputs alone."""
    steps = [step for port in pipeline.after for step in port.steps]
    is_free = not pipeline.code_after and not any(step.wants_samples for step in steps)
    return bool(steps) and is_free


def finish_all(connection: socket.socket, pipeline: Pipeline) -> None:
    """Post-process what comes over a `connection` by the steps of a `pipeline` until it closes.

    It is done as `PostProcessing.answers` does without faults.
    """
    while (outputs := received(connection, lambda: False)) is not None:
        finished: Finished | None = None
        answers, stamps = [], []
        with suppress(*SAMPLE_ERRORS):
            for port in pipeline.after:
                value: Any = output_named(outputs, port.name)
                for step in port.steps:
                    extra = [output_named(outputs, name) for name in step.extra_outputs]
                    began = now_ns()
                    value = step.apply(value, *extra)
                    stamps.append((began, now_ns()))
                answers.append((port.name, value))
            finished = Finished(answers, stamps, threading.get_native_id())
        send(connection, finished)
