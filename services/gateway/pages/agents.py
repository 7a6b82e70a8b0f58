"""Agents as texts: hardware, frameworks, what they do. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mlscope.counts import many
from schemas.agent import Hardware
from schemas.status import AgentStatus, EvaluationStatus

_GIB = 1 << 30


def hardware_text(hardware: Hardware) -> str:
    """Return what a machine is: accelerators first, then its cores and memory."""
    accelerators: dict[str, int] = {}
    for accelerator in hardware.accelerators:
        accelerators[accelerator.name] = accelerators.get(accelerator.name, 0) + 1
    parts = [f"{count} x {name}" if count > 1 else name for name, count in accelerators.items()]
    cores = many(hardware.cores, "core")
    parts.append(f"{cores} of {hardware.cpu_model or hardware.architecture}")
    if hardware.memory_bytes:
        parts.append(f"{hardware.memory_bytes / _GIB:.3g} GiB")
    return ", ".join(parts)


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent in the fleet, and the evaluations whose runs it executes now."""

    status: AgentStatus
    busy: Sequence[EvaluationStatus]

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.status.announcement.agent

    @property
    def hardware(self) -> str:
        """What its machine is."""
        return hardware_text(self.status.announcement.hardware)

    @property
    def frameworks(self) -> str:
        """Its frameworks with their versions."""
        runtimes = self.status.announcement.runtimes
        return ", ".join(f"{runtime.framework} {runtime.version}" for runtime in runtimes)

    @property
    def condition(self) -> str:
        """`busy`, `idle`, or how it went: `left`, `lost`."""
        if self.status.state != "live":
            return self.status.state
        return "busy" if self.busy else "idle"


def agent_rows(
    agents: Iterable[AgentStatus], running: Sequence[EvaluationStatus]
) -> list[AgentRow]:
    """Return the agents, those that are live first, each with what it does of `running`."""
    rows = []
    for status in agents:
        name = status.announcement.agent
        busy = [
            evaluation
            for evaluation in running
            if any(run.agent == name and run.state == "started" for run in evaluation.runs)
        ]
        rows.append(AgentRow(status, busy))
    order = ("busy", "idle", "lost", "left")
    return sorted(rows, key=lambda row: (order.index(row.condition), row.name))
