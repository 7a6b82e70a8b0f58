"""Opens the session of an order, in a worker or in a process that replays it."""

from dataclasses import dataclass
from pathlib import Path

from mlscope.load.errors import LoadError
from mlscope.load.load import AHEAD
from mlscope.load.scenarios import COLD, scenario_named
from schemas.encoding.errors import MalformedMessage
from schemas.plan import RunPlan
from services.agent.link.messages import PerformOrder, decode_to_worker, encode
from services.agent.link.variants import opening_collector_level, traces_first, variant_subject
from services.agent.machine.roofline.ceilings import Roof
from services.agent.predictors import Opened
from services.agent.worker.open_collectors import CollectorContext
from services.agent.worker.queries.issuing import is_inline
from services.agent.worker.session import Session, SessionEnvironment, open_session_in


@dataclass(frozen=True, slots=True)
class SessionOpener:
    """The message with a session's first order, and this process's own folder."""

    message: PerformOrder
    #: where this process may write
    scratch: Path = Path()

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

    def open(self) -> Session:
        """Open the session in this process, as its variant requires. Raises AgentError."""
        message, plan = self.message, self.message.order.session
        environment = SessionEnvironment(
            self.scratch,
            message.allowances,
            traces_first=traces_first(plan),
            collectors=self._opening_collectors(),
            may_stream=any(may_stream(run, plan.batch_size) for run in plan.runs),
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


def may_stream(plan: RunPlan, batch_size: int) -> bool:
    """Return whether a run may prepare samples while other queries of it are predicted."""
    if plan.scenario == COLD:
        return False
    try:
        load = scenario_named(plan.scenario)(plan.parameters, batch_size, 1)
    except LoadError:
        return False
    return load.samples != AHEAD and (plan.pacing == "remote" or not is_inline(load))
