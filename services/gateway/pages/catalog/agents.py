"""The pages of agents: hardware, frameworks, what they may trace and what they do. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlscope.counts import many
from mlscope.quantities import number, shown
from schemas.agent import Accelerator, Announcement, Hardware
from schemas.price import Price
from schemas.run import Ceiling
from schemas.status import AgentStatus, EvaluationStatus
from services.gateway.pages.catalog.agent_use import AgentUse
from services.gateway.pages.evaluations import PLAIN_HEADS, EvaluationRow, Head

_BINARY = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B"))


def hardware_text(hardware: Hardware) -> str:
    """Return what a machine is: accelerators first, then its cores and memory."""
    accelerators: dict[str, int] = {}
    for accelerator in hardware.accelerators:
        accelerators[accelerator.name] = accelerators.get(accelerator.name, 0) + 1
    parts = [f"{count} x {name}" if count > 1 else name for name, count in accelerators.items()]
    cores = many(hardware.cores, "core")
    parts.append(f"{cores} of {hardware.cpu_model or hardware.architecture}")
    return ", ".join(filter(None, (*parts, memory_text(hardware))))


def memory_text(hardware: Hardware) -> str:
    """Return a machine's memory, as constraints of requests count it; '' if it is not known."""
    return _binary_text(hardware.memory_bytes) if hardware.memory_bytes else ""


def _binary_text(size_bytes: int) -> str:
    """Return a size in powers of 1024, in which memories and caches are made: `32 KiB`."""
    factor, unit = next((pair for pair in _BINARY if size_bytes >= pair[0]), _BINARY[-1])
    return f"{number(size_bytes / factor)} {unit}"


def built_text(hardware: Hardware) -> str:
    """Return how a host is built, as `2 sockets, 32 cores, 4 threads each`; '' where unknown."""
    if not hardware.physical_cores:
        return ""
    parts = [many(hardware.sockets, "socket"), many(hardware.physical_cores, "core")]
    if hardware.threads_per_core > 1:
        parts.append(f"{hardware.threads_per_core} threads each")
    if hardware.numa_nodes > 1:
        parts.append(f"{hardware.numa_nodes} NUMA nodes")
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
        """`busy`, `idle`, `drained`, or how it went: `left`, `lost`, `revoked`."""
        if self.status.state != "live":
            return self.status.state
        if self.status.is_drained and not self.busy:
            return "drained"
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
    order = ("busy", "idle", "drained", "lost", "left", "revoked")
    return sorted(rows, key=lambda row: (order.index(row.condition), row.name))


@dataclass(frozen=True, slots=True)
class AgentsView:
    """All agents."""

    rows: Sequence[AgentRow]
    template: ClassVar[str] = "agents.html"
    title: ClassVar[str] = "Agents"


@dataclass(frozen=True, slots=True)
class Roof:
    """A ceiling of a device, as texts."""

    device: str
    what: str
    measured: str
    datasheet: str
    method: str


@dataclass(frozen=True, slots=True)
class AgentView:
    """One agent: what it is, what it may trace, what it runs and ran."""

    row: AgentRow
    history: Sequence[EvaluationRow]
    #: what an hour on it costs, None where nobody said
    price: Price | None = None
    #: its evaluations day by day, None where none are recent
    use: AgentUse | None = None
    template: ClassVar[str] = "agent.html"
    heads: ClassVar[Sequence[Head]] = PLAIN_HEADS

    @property
    def title(self) -> str:
        """The agent's name."""
        return self.row.name

    @property
    def price_text(self) -> str:
        """Dollars an hour with every digit, so that keeping it changes nothing; '' for none."""
        return repr(self.price.dollars_per_hour).removesuffix(".0") if self.price else ""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Names and values of what is known of its machine and software."""
        announcement = self.row.status.announcement
        hardware = announcement.hardware
        host = f" of {hardware.host_cores}" if hardware.host_cores > hardware.cores else ""
        labels = ", ".join(f"{name}={value}" for name, value in announcement.labels.items())
        caches = ", ".join(
            f"{name} {_binary_text(size)}" for name, size in hardware.cache_bytes.items()
        )
        is_open = announcement.allows_inline_python
        facts = [
            ("Host", hardware.hostname),
            ("Processor", f"{hardware.cpu_model} ({hardware.architecture})".strip()),
            ("Cores", f"{hardware.cores}{host}"),
            ("Built of", built_text(hardware)),
            ("Caches", caches),
            ("Instruction sets", " ".join(hardware.cpu_features)),
            ("Memory", memory_text(hardware)),
            ("Interconnect", hardware.interconnect),
            ("Image", announcement.image),
            ("Starts containers", containers_text(announcement)),
            ("Labels", labels),
            ("Python", announcement.python_version),
            ("mlscope", announcement.mlscope_version),
            ("Models", "any" if announcement.models is None else "only those of its own catalog"),
            ("Sandbox of models", announcement.sandbox),
            ("Missing for the sandbox", "; ".join(announcement.sandbox_missing)),
            ("Python code in requests", "allowed" if is_open else "not allowed"),
            ("Reserved", "for one request" if announcement.reserved_for else ""),
        ]
        return [(name, value) for name, value in facts if value]

    @property
    def roofs(self) -> list[Roof]:
        """The ceilings of its processors and accelerators, where they were measured."""
        hardware = self.row.status.announcement.hardware
        devices: list[tuple[str, Hardware | Accelerator]] = [("cpu", hardware)]
        devices += [(accelerator.name, accelerator) for accelerator in hardware.accelerators]
        roofs = []
        for device, source in devices:
            for precision, ceiling in source.peak_flops.items():
                roofs.append(_roof(device, f"compute, {precision}", ceiling, "FLOP/s"))
            if source.memory_bandwidth:
                roofs.append(_roof(device, "memory", source.memory_bandwidth, "B/s"))
        return roofs

    @property
    def roof_note(self) -> str:
        """Why ceilings are missing, beginning with a capital; '' where none says why."""
        hardware = self.row.status.announcement.hardware
        notes = [hardware.roof_note, *(device.roof_note for device in hardware.accelerators)]
        text = "; ".join(filter(None, notes))
        # The rest of a note stays as it is: it names devices and programs.
        return text[:1].upper() + text[1:]


def containers_text(announcement: Announcement) -> str:
    """Return the engine that an agent starts containers with, and their images; '' for none."""
    if not announcement.engine or announcement.engine_reason:
        return announcement.engine_reason
    images = [own.image for own in announcement.containers if not own.reason]
    return f"{announcement.engine}: {', '.join(images) or 'no image is ready'}"


def _roof(device: str, what: str, ceiling: Ceiling, unit: str) -> Roof:
    measured = shown(ceiling.measured, unit)
    if ceiling.measured is not None and ceiling.uncertainty:
        measured += f" (up to {shown(ceiling.uncertainty, 'share')} higher)"
    return Roof(device, what, measured, shown(ceiling.datasheet, unit), ceiling.method)
