"""Agents: hardware, runtimes and collectors, and when they come, leave or are lost.

An agent proves that it is alive by a lease, not by facts.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from schemas.level import Level, LevelField
from schemas.message import Fact, Message
from schemas.run import Ceiling
from schemas.values.identity import Token


class Accelerator(Message):
    """One accelerator of a machine."""

    name: str
    kind: Literal["gpu", "tpu", "npu", "fpga", "other"] = "gpu"
    #: nvidia, amd, …; agents of release 0.1 announce GPUs of NVIDIA alone, and no vendor
    vendor: str = ""
    memory_bytes: int = 0
    #: bus: pcie, nvlink, sxm …
    interconnect: str = ""
    driver: str = ""
    #: from CUDA's driver, where cuda-python is installed: as 9.0; multiprocessors; level-2 cache
    compute_capability: str = ""
    multiprocessors: int = 0
    l2_bytes: int = 0
    #: the device's id in NVML
    uuid: str = ""
    #: ceilings of compute (FLOP/s by precision) and memory (bytes/s): the best of what was measured
    #: before layers were traced on it, and from its datasheet
    peak_flops: dict[str, Ceiling] = Field(default_factory=dict)
    memory_bandwidth: Ceiling | None = None
    #: which ceilings could not be measured, and why
    roof_note: str = ""


class Hardware(Message):
    """Hardware of a machine."""

    hostname: str
    architecture: str
    cpu_model: str = ""
    #: what the agent may use, by its CPU affinity and its container's limits
    cores: int = Field(default=1, ge=1)
    memory_bytes: int = 0
    #: what the host has; 0 unknown
    host_cores: int = 0
    host_memory_bytes: int = 0
    #: how the host is built: sockets, cores, most hardware threads of one, nodes of memory with
    #: cores; 0 unknown, as of release 0.1
    sockets: int = 0
    physical_cores: int = 0
    threads_per_core: int = 0
    numa_nodes: int = 0
    #: the largest cache of each kind: L1d, L1i, L2, L3
    cache_bytes: dict[str, int] = Field(default_factory=dict)
    #: instruction sets of every core that frameworks choose kernels by, as Linux calls them
    cpu_features: tuple[str, ...] = ()
    accelerators: tuple[Accelerator, ...] = ()
    interconnect: str = ""
    #: ceilings of all usable cores together: compute (FLOP/s by precision) and memory (bytes/s);
    #: empty until layers are first traced there
    peak_flops: dict[str, Ceiling] = Field(default_factory=dict)
    memory_bandwidth: Ceiling | None = None
    #: why they could not be measured
    roof_note: str = ""


class Runtime(Message):
    """An installed framework, its devices and the deepest level that it can trace."""

    framework: str
    version: str
    devices: tuple[str, ...] = ("cpu",)
    #: why it has no device
    device_reason: str = ""
    deepest_level: LevelField = Level.MODEL
    #: options of requests that its predictor takes; None unknown
    options: tuple[str, ...] | None = None


class CollectorFacts(Message):
    """A collector of traces: its levels, and why it has no more. () of devices: any."""

    name: str
    levels: tuple[LevelField, ...] = ()
    reason: str = ""
    devices: tuple[str, ...] = ()
    frameworks: tuple[str, ...] = ()


class PackageFacts(Message):
    """A package that models may need beside their framework, by its import name."""

    name: str
    #: '' where it is not installed, or does not say
    version: str = ""
    #: why it cannot be used, and how to mend that; '' where it can
    reason: str = ""


class HostFacts(Message):
    """A host of published weights, and why nothing can be fetched from it; '' where it answers."""

    name: str
    reason: str = ""


class ContainerFacts(Message):
    """A framework's image that an agent may start for a session, and what is in it."""

    image: str
    #: the engine's id of the image, by which it is started; '' where it is missing
    digest: str = ""
    #: why it cannot be used, and how to mend that; '' where it can
    reason: str = ""
    runtimes: tuple[Runtime, ...] = ()
    collectors: tuple[CollectorFacts, ...] = ()
    packages: tuple[PackageFacts, ...] | None = None
    mlscope_version: str = ""
    python_version: str = ""


class Announcement(Message):
    """An agent's hardware and software as it finds them when it starts."""

    agent: Token
    #: id of one start of the agent's process; a restart has a new one
    incarnation: str
    hardware: Hardware
    runtimes: tuple[Runtime, ...]
    collectors: tuple[CollectorFacts, ...] = ()
    image: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    allows_inline_python: bool = False
    #: the first digits of the digests of the models that it opens; None: any
    models: tuple[str, ...] | None = None
    #: import paths that builders may come from; None unknown
    builders: tuple[str, ...] | None = None
    #: packages of builders, and those that decode and load; None: of release 0.1, not known
    packages: tuple[PackageFacts, ...] | None = None
    #: whether it can fetch from a model hub (`hf://`); None unknown
    has_hub: bool | None = None
    #: why it can fetch from none, as its address and an error; '' where it can
    hub_reason: str = ""
    #: other hosts that it tried, of the weights of shipped models; None unknown
    hosts: tuple[HostFacts, ...] | None = None
    #: keys of the largest files in its cache, where one of the hosts or the hub does not answer:
    #: the first digits of the sha256 of `sha256:…`, of `md5:…` or of an address
    cached: tuple[str, ...] = ()
    #: other hosts whose model servers it may use
    remote_hosts: tuple[str, ...] = ()
    #: whether models' processes are confined (auto, required, off); '' unknown
    sandbox: str = ""
    #: what its machine lacks for that, in words
    sandbox_missing: tuple[str, ...] = ()
    mlscope_version: str = ""
    python_version: str = ""
    #: container engine that its owner lets it start sessions in, with its version; '' for none
    engine: str = ""
    #: why the engine cannot be used now
    engine_reason: str = ""
    #: the images of its own framework manifests, for its architecture
    containers: tuple[ContainerFacts, ...] = ()
    #: key of the only request that it serves, as an import does; '' serves all
    reserved_for: str = ""

    @model_validator(mode="before")
    @classmethod
    def _one_text_has_two_parts(cls, value: Any) -> Any:
        """Development versions of 0.2 wrote both into `sandbox`, with semicolons between."""
        sandbox = value.get("sandbox") if isinstance(value, dict) else None
        if not isinstance(sandbox, str) or "; " not in sandbox:
            return value
        setting, *missing = sandbox.split("; ")
        return {**value, "sandbox": setting, "sandbox_missing": missing}


class AgentAnnounced(Fact):
    """An agent is available. Published by the agent."""

    entity = "agent"
    happened = "announced"
    agent: Token
    announcement: Announcement

    @model_validator(mode="after")
    def _speaks_of_itself(self) -> "AgentAnnounced":
        # The broker knows the agent by its subject; who runs what is decided by the announcement.
        if self.announcement.agent != self.agent:
            raise ValueError(f"the announcement of {self.agent} names {self.announcement.agent}")
        return self


class AgentLeft(Fact):
    """An agent stopped as intended. Published by the agent."""

    entity = "agent"
    happened = "left"
    agent: Token
    incarnation: str


class AgentLost(Fact):
    """An agent's lease expired. Published by the registry; `revision` is the lease's last one."""

    entity = "agent"
    happened = "lost"
    agent: Token
    incarnation: str
    revision: int = 0


class AgentInvited(Fact):
    """A machine may join as the agent, once, until the end. Published by the operator."""

    entity = "agent"
    happened = "invited"
    agent: Token
    #: when the invitation ends (epoch)
    ends_ns: int


class AgentJoined(Fact):
    """A machine used an invitation: its own key is the agent's now. Published by the operator."""

    entity = "agent"
    happened = "joined"
    agent: Token


class AgentDrained(Fact):
    """An agent gets no new evaluations, and finishes those it has. Published by the operator."""

    entity = "agent"
    happened = "drained"
    agent: Token


class AgentResumed(Fact):
    """A drained agent gets evaluations again. Published by the operator."""

    entity = "agent"
    happened = "resumed"
    agent: Token


class AgentRevoked(Fact):
    """An agent's key was revoked and its connection closed. Published by the operator."""

    entity = "agent"
    happened = "revoked"
    agent: Token


class Lease(Message):
    """The value of a lease key: its holder, the holder's start and its current runs."""

    holder: Token
    incarnation: str
    #: the holder's machine
    hostname: str = ""
    #: accepted runs that have not ended, `evaluation/run/attempt`
    busy: tuple[str, ...] = ()
    #: seconds spent so far on fetching the files of these runs
    brought_s: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict
    )
