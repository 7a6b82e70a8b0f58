"""Agents: what they are, that they came, left or were lost. Heartbeats are leases, not facts."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.identity import Token
from schemas.level import Level, LevelField
from schemas.message import Fact, Message
from schemas.run import Ceiling


class Accelerator(Message):
    """One accelerator of a machine."""

    name: str
    kind: Literal["gpu", "tpu", "npu", "fpga", "other"] = "gpu"
    memory_bytes: int = 0
    #: how it is reached: pcie, nvlink, sxm …
    interconnect: str = ""
    driver: str = ""
    #: of CUDA's driver, where cuda-python is installed: as 9.0; multiprocessors; second cache
    compute_capability: str = ""
    multiprocessors: int = 0
    l2_bytes: int = 0
    #: what NVML calls this very device by
    uuid: str = ""
    #: what it computes (FLOP/s by precision) and moves (bytes/s) at most: as measured once, when
    #: layers were first asked for on it, and as its datasheet says
    peak_flops: dict[str, Ceiling] = Field(default_factory=dict)
    memory_bandwidth: Ceiling | None = None
    #: what of that could not be measured, and why
    roof_note: str = ""


class Hardware(Message):
    """What the machine is."""

    hostname: str
    architecture: str
    cpu_model: str = ""
    #: what the agent may use of it: its affinity, the limits of its container
    cores: int = Field(default=1, ge=1)
    memory_bytes: int = 0
    #: what the host has; 0 where the agent did not say
    host_cores: int = 0
    host_memory_bytes: int = 0
    accelerators: tuple[Accelerator, ...] = ()
    interconnect: str = ""
    #: what the cores that the agent may use compute (FLOP/s by precision) and move (bytes/s) at
    #: most together; empty until layers were first asked for there
    peak_flops: dict[str, Ceiling] = Field(default_factory=dict)
    memory_bandwidth: Ceiling | None = None


class Runtime(Message):
    """A framework installed there, the devices it serves and the deepest level it can trace."""

    framework: str
    version: str
    devices: tuple[str, ...] = ("cpu",)
    deepest_level: LevelField = Level.MODEL


class CollectorFacts(Message):
    """A collector of traces: the levels it gives there, and why no more; () is any."""

    name: str
    levels: tuple[LevelField, ...] = ()
    reason: str = ""
    devices: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()


class Announcement(Message):
    """An agent's software and hardware, as it sees them at start."""

    agent: Token
    #: one start of the agent's process; a restart announces a new one
    incarnation: str
    hardware: Hardware
    runtimes: tuple[Runtime, ...]
    collectors: tuple[CollectorFacts, ...] = ()
    image: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    allows_inline_python: bool = False
    #: import paths below which a builder may be; None where the agent does not say
    builders: tuple[str, ...] | None = None
    #: hosts beside its own whose model servers it may ask
    remote_hosts: tuple[str, ...] = ()
    mlscope_version: str = ""
    python_version: str = ""
    #: the key of the only request it serves, as an import does; '' for an agent of everybody
    reserved_for: str = ""


class AgentAnnounced(Fact):
    """An agent is here. Said by the agent."""

    entity = "agent"
    happened = "announced"
    agent: Token
    announcement: Announcement


class AgentLeft(Fact):
    """An agent stopped in good order. Said by the agent."""

    entity = "agent"
    happened = "left"
    agent: Token
    incarnation: str


class AgentLost(Fact):
    """An agent's lease ran out. Said by the registry; `revision` is the lease's last one."""

    entity = "agent"
    happened = "lost"
    agent: Token
    incarnation: str
    revision: int = 0


class Lease(Message):
    """The value of a lease key: who lives, since which start, and what keeps it busy."""

    holder: Token
    incarnation: str
    #: the machine its holder runs on
    hostname: str = ""
    #: runs accepted and not ended, `evaluation/run/attempt`
    busy: tuple[str, ...] = ()
    #: how long, so far, the files of these took to be brought
    brought_s: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
