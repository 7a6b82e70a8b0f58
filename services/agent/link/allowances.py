"""What the agent's owner allows models to use: code, builders, servers, memory. Pure."""

from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from services.agent.default_builders import BUILDERS

AHEAD_SHARE, MAX_AHEAD_BYTES = 0.25, 4 << 30
"""The share of the free memory for batches prepared ahead, and its limit, without a setting."""


@dataclass(frozen=True, slots=True)
class InlineLimits:
    """Limits of inline Python: of each call and of its process."""

    #: wall time and processor time of one call, in seconds
    timeout_s: float = 10.0
    cpu_s: int = 10
    #: in addition to what Python and the imported modules map
    memory_bytes: int = 1 << 30
    #: size of one answer
    output_bytes: int = 64 << 20


@dataclass(frozen=True, slots=True)
class PreparationLimits:
    """Limits of preparing samples."""

    #: how many at most; 0: threads prepare them
    processes: int = 64
    #: wall time of one sample in any process, in seconds
    sample_timeout_s: float = 60.0


class AllowanceSettings(Protocol):
    """The settings that allowances are made of; `mlscope.settings.Settings` has them."""

    @property
    def allow_inline_python(self) -> bool:
        """Whether models may include inline Python."""
        ...

    @property
    def inline_timeout_s(self) -> float:
        """Wall time of one call of inline Python."""
        ...

    @property
    def inline_cpu_s(self) -> int:
        """Processor time of one call of inline Python."""
        ...

    @property
    def inline_memory_bytes(self) -> int:
        """Memory of the process of inline Python."""
        ...

    @property
    def inline_output_bytes(self) -> int:
        """Bytes of one answer of inline Python."""
        ...

    @property
    def prepare_processes(self) -> int:
        """Most processes that prepare samples; 0: threads do."""
        ...

    @property
    def prepare_timeout_s(self) -> float:
        """Wall time of preparing one sample."""
        ...

    @property
    def sandbox(self) -> str:
        """Whether workers are confined to their sessions' files: auto, required or off."""
        ...

    @property
    def worker_user(self) -> str:
        """Whether a confined worker of root becomes a user of its own: auto, own or agent."""
        ...

    @property
    def sandbox_devices(self) -> tuple[str, ...]:
        """Patterns below /dev of further device files that models may use."""
        ...

    @property
    def secret_paths(self) -> tuple[Path, ...]:
        """Files and folders that no model may read."""
        ...

    @property
    def builders(self) -> tuple[str, ...]:
        """Import paths below which builders may lie; empty: the shipped ones."""
        ...

    @property
    def remote_hosts(self) -> tuple[str, ...]:
        """Other hosts whose servers the `remote` predictor may ask."""
        ...

    @property
    def ahead_bytes(self) -> int | None:
        """Memory of batches prepared ahead; None: a share of the free memory."""
        ...

    @property
    def worker_memory_bytes(self) -> int:
        """Memory that a worker may use; 0 is no limit."""
        ...


@dataclass(frozen=True, slots=True)
class Allowances:
    """What the agent's owner allows; by default the shipped builders and nothing else."""

    #: None: no inline Python
    inline: InlineLimits | None = None
    builders: tuple[str, ...] = BUILDERS
    remote_hosts: tuple[str, ...] = ()
    #: memory of batches prepared ahead of runs; None: `AHEAD_SHARE` of the free memory
    ahead_bytes: int | None = None
    preparation: PreparationLimits = PreparationLimits()
    #: whether a worker is confined to its session's files: auto, required or off
    sandbox: str = "auto"
    #: whether a confined worker of root becomes a user of its own (own; auto: on the CPU and on
    #: GPUs of NVIDIA), or stays root (agent)
    worker_user: str = "auto"
    #: patterns below /dev of device files that a confined worker may use besides the known ones
    devices: tuple[str, ...] = ()
    #: files and folders that a confined worker can't read, unless they are its session's
    hidden: tuple[Path, ...] = ()

    @classmethod
    def of(cls, settings: AllowanceSettings) -> Self:
        """Return the allowances that the settings give."""
        limits = InlineLimits(
            timeout_s=settings.inline_timeout_s,
            cpu_s=settings.inline_cpu_s,
            memory_bytes=settings.inline_memory_bytes,
            output_bytes=settings.inline_output_bytes,
        )
        ahead_bytes = settings.ahead_bytes
        if ahead_bytes is None and settings.worker_memory_bytes:
            ahead_bytes = min(int(settings.worker_memory_bytes * AHEAD_SHARE), MAX_AHEAD_BYTES)
        return cls(
            inline=limits if settings.allow_inline_python else None,
            builders=settings.builders or BUILDERS,
            remote_hosts=settings.remote_hosts,
            ahead_bytes=ahead_bytes,
            preparation=PreparationLimits(settings.prepare_processes, settings.prepare_timeout_s),
            sandbox=settings.sandbox,
            worker_user=settings.worker_user,
            devices=settings.sandbox_devices,
            hidden=tuple(path.absolute() for path in settings.secret_paths),
        )


def ahead_limit_bytes(allowed_bytes: int | None, available_bytes: int) -> int:
    """Return the memory for batches prepared ahead, of the `available_bytes`.

    It is what the setting has, `allowed_bytes`, or a share of the available memory for None. Where
    it is unknown how much is available (0), there is as much as the share is limited to.
    """
    available_bytes = available_bytes or MAX_AHEAD_BYTES
    if allowed_bytes is None:
        return min(int(available_bytes * AHEAD_SHARE), MAX_AHEAD_BYTES)
    return min(allowed_bytes, available_bytes)


DEFAULT_ALLOWANCES = Allowances()
"""What is allowed unless settings say otherwise."""
