"""Check JAX's options and fill in the defaults."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption
from services.agent.predictors.options import check_known, choice, count, usable_cores

PRECISIONS = ("float32", "bfloat16")
MATMUL_PRECISIONS = ("default", "high", "highest", "bfloat16", "tensorfloat32", "float32")
_EXPORTED = "left out, as an exported program has its own"


@dataclass(frozen=True, slots=True)
class Options:
    """The options that a program is compiled with."""

    #: XLA's threads on a CPU
    threads: int
    #: the type that parameters and inputs are cast to; '' keeps the types of an exported program
    precision: str
    #: `jax.default_matmul_precision`; default lets a GPU use TF32
    matmul_precision: str
    device: str

    def by_name(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def options_of(requested: Mapping[str, Any], device: str, *, exported: bool) -> Options:
    """Return the checked options; `requested` has those of a request by name.

    `device` is cpu, gpu or gpu:N; `exported`: the model is an exported program, which has its
    precision already. Raises BadOption.
    """
    check_known(requested, "jax")
    if exported:
        for name in ("precision", "matmul_precision"):
            if name in requested:
                raise BadOption(name, requested[name], _EXPORTED)
    return Options(
        threads=count(requested, "threads", usable_cores()),
        precision="" if exported else choice(requested, "precision", PRECISIONS, "float32"),
        matmul_precision=choice(requested, "matmul_precision", MATMUL_PRECISIONS, "default"),
        device=(device or "cpu").lower().replace("cuda", "gpu"),
    )
