"""Opens the session of an order, in a worker or in a process that replays it."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from mlscope.load.errors import LoadError
from mlscope.load.load import STREAMED
from mlscope.load.scenarios import COLD, scenario_named
from schemas.encoding.errors import MalformedMessage
from schemas.manifest import ModelManifest
from schemas.plan import RunPlan
from services.agent.link.allowances import ahead_limit_bytes
from services.agent.link.messages import PerformOrder, decode_to_worker, encode
from services.agent.link.preparation_clock import PreparationClock
from services.agent.link.variants import opening_collector_level, traces_first, variant_subject
from services.agent.machine.quotas import available_memory_bytes
from services.agent.machine.roofline.ceilings import Roof
from services.agent.predictors import Opened
from services.agent.worker.open_collectors import CollectorContext
from services.agent.worker.opening import SessionEnvironment, open_session_in
from services.agent.worker.preparation.shares import MOST_IN_FLIGHT
from services.agent.worker.queries.ahead import distinct_batches
from services.agent.worker.queries.issuing import is_inline
from services.agent.worker.session import Session

_ELEMENT_BYTES = 4
"""Of float32, which most models take."""


@dataclass(frozen=True, slots=True)
class SessionOpener:
    """The message with a session's first order, and this process's own folder."""

    message: PerformOrder
    #: where this process may write
    scratch: Path = Path()
    #: where it notes the samples that it prepares
    preparation_clock: PreparationClock = field(default_factory=PreparationClock)

    @classmethod
    def read(cls, path: Path, scratch: Path) -> "SessionOpener":
        """Return what `write` wrote to a path, for a process with a `scratch` folder of its own.

        Raises OSError, MalformedMessage.
        """
        message = decode_to_worker(path.read_bytes())
        if not isinstance(message, PerformOrder):
            name = type(message).__name__
            raise MalformedMessage(field="", found=name, expected=PerformOrder.__name__)
        return cls(message, scratch)

    def write(self, path: Path) -> None:
        """Write the message to a file in the worker's own folder. Raises OSError."""
        path.write_bytes(encode(self.message))

    @property
    def roof(self) -> Roof:
        """The roof of the order's device, as the host measured it."""
        return self.message.roof

    def open(self, *, streams: bool = True) -> Session:
        """Open the session in this process, as its variant requires. Raises AgentError.

        Without `streams` none of its runs is performed here, so that no process prepares samples.
        """
        message, plan = self.message, self.message.order.session
        environment = SessionEnvironment(
            self.scratch,
            message.allowances,
            traces_first=traces_first(plan),
            collectors=self._opening_collectors(),
            in_flight=max(streamed_in_flight(run, message) for run in plan.runs) if streams else 0,
            preparation_clock=self.preparation_clock,
        )
        subject = variant_subject(plan.variant, message.order.subject)
        return open_session_in(
            environment, subject, plan.batch_size, message.manifests_folder, message.files
        )

    def _opening_collectors(self) -> CollectorContext | None:
        """Return the context of collectors that observe the opening; None where none do.

        It describes the request: nothing is opened yet.
        """
        plan, subject = self.message.order.session, self.message.order.subject
        level = opening_collector_level(plan)
        if level is None:
            return None
        requested = Opened(
            framework=subject.framework,
            framework_version="",
            inputs=(),
            outputs=(),
            device=subject.device,
            provider="",
            precision="",
            threads=0,
            options=dict(subject.options),
        )
        return CollectorContext(requested, level, plan.variant, subject.collectors, self)


def streamed_in_flight(plan: RunPlan, message: PerformOrder) -> int:
    """Return how many queries may be in flight of a run that prepares samples while it predicts.

    0 of a run whose samples are prepared ahead or inline. Whether they fit ahead is known only once
    the model is open, and estimated by the shapes in its manifest before.
    """
    if plan.scenario == COLD:
        return 0
    batch_size, samples = message.order.session.batch_size, message.order.subject.dataset.samples
    try:
        load = scenario_named(plan.scenario)(plan.parameters, batch_size, len(samples) or 1)
    except LoadError:
        return 0
    if plan.pacing != "remote" and is_inline(load):
        return 0
    is_open_loop = plan.pacing == "remote" or load.due_ns is not None
    in_flight = MOST_IN_FLIGHT if is_open_loop else min(load.concurrency, MOST_IN_FLIGHT)
    if load.samples == STREAMED:
        return in_flight
    batches = len(distinct_batches(load)) if samples else load.queries
    limit_bytes = ahead_limit_bytes(message.allowances.ahead_bytes, available_memory_bytes())
    batches_bytes = batches * batch_size * _sample_bytes(message.order.subject.model)
    return in_flight if batches_bytes > limit_bytes else 0


def _sample_bytes(model: ModelManifest) -> int:
    """Return about how many bytes a sample has as a model takes it; free sizes count as one."""
    shapes = [port.shape[1:] for port in model.inputs]
    return sum(_ELEMENT_BYTES * math.prod(max(size, 1) for size in shape) for shape in shapes)
