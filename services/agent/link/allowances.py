"""What the agent's owner allows models to use: inline code, builders, remote servers. Pure."""

from dataclasses import dataclass
from typing import Protocol, Self

from services.agent.default_builders import BUILDERS


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
    def builders(self) -> tuple[str, ...]:
        """Import paths below which builders may lie; empty: the shipped ones."""
        ...

    @property
    def remote_hosts(self) -> tuple[str, ...]:
        """Other hosts whose servers the `remote` predictor may ask."""
        ...


@dataclass(frozen=True, slots=True)
class Allowances:
    """What the agent's owner allows; by default the shipped builders and nothing else."""

    #: None: no inline Python
    inline: InlineLimits | None = None
    builders: tuple[str, ...] = BUILDERS
    remote_hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: AllowanceSettings) -> Self:
        """Return the allowances that the settings give."""
        limits = InlineLimits(
            timeout_s=settings.inline_timeout_s,
            cpu_s=settings.inline_cpu_s,
            memory_bytes=settings.inline_memory_bytes,
            output_bytes=settings.inline_output_bytes,
        )
        return cls(
            inline=limits if settings.allow_inline_python else None,
            builders=settings.builders or BUILDERS,
            remote_hosts=settings.remote_hosts,
        )


DEFAULT_ALLOWANCES = Allowances()
"""What is allowed unless settings say otherwise."""
