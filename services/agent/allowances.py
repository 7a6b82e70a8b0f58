"""What an agent's owner allows that a model brings: code, builders, servers elsewhere."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, Self

from services.agent.predictors import BUILDERS


@dataclass(frozen=True, slots=True)
class InlineLimits:
    """What inline Python may use, each call of it and its process."""

    #: wall time and processor time of one call, in seconds
    timeout_s: float = 10.0
    cpu_s: int = 10
    #: beside what Python and the imported modules map themselves
    memory_bytes: int = 1 << 30
    #: of one answer
    output_bytes: int = 64 << 20


class AllowanceSettings(Protocol):
    """Where allowances are set; `mlscope.settings.Settings` has it."""

    @property
    def allow_inline_python(self) -> bool:
        """Whether models may bring Python."""
        ...

    @property
    def inline_timeout_s(self) -> float:
        """Wall time of one call."""
        ...

    @property
    def inline_cpu_s(self) -> int:
        """Processor time of one call."""
        ...

    @property
    def inline_memory_bytes(self) -> int:
        """Memory of its process."""
        ...

    @property
    def inline_output_bytes(self) -> int:
        """Bytes of one answer."""
        ...

    @property
    def builders(self) -> tuple[str, ...]:
        """Import paths below which a builder may be; none named: the shipped ones."""
        ...

    @property
    def remote_hosts(self) -> tuple[str, ...]:
        """Hosts beside this one whose servers may be asked."""
        ...


@dataclass(frozen=True, slots=True)
class Allowances:
    """What an agent's owner allows; without a word, the shipped builders and nothing else."""

    #: None: no inline Python
    inline: InlineLimits | None = None
    builders: tuple[str, ...] = BUILDERS
    remote_hosts: tuple[str, ...] = ()

    @classmethod
    def of(cls, settings: AllowanceSettings) -> Self:
        """Return what the settings allow."""
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

    def words(self) -> dict[str, Any]:
        """Return it as an order to a worker carries it."""
        return asdict(self)


def allowances_of(words: Mapping[str, Any]) -> Allowances:
    """Return what `Allowances.words` made."""
    inline = words["inline"]
    return Allowances(
        inline=None if inline is None else InlineLimits(**inline),
        builders=tuple(words["builders"]),
        remote_hosts=tuple(words["remote_hosts"]),
    )


NO_MORE = Allowances()
"""What is allowed where nobody said more."""
