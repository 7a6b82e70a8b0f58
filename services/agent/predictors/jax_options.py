"""JAX's options: checked, with what they come to when not given."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from services.agent.errors import BadOption
from services.agent.predictors.options import check_known, choice, count, usable_cores

PRECISIONS = ("float32", "bfloat16")
MATMUL_PRECISIONS = ("default", "high", "highest", "bfloat16", "tensorfloat32", "float32")
KNOWN = ("threads", "precision", "matmul_precision")
_OWN = "left out: an exported program has its own"


@dataclass(frozen=True, slots=True)
class Options:
    """What a program is compiled with."""

    #: XLA's threads on a CPU
    threads: int
    #: what parameters and inputs are cast to; '' is as an exported program has it
    precision: str
    #: `jax.default_matmul_precision`; default lets a GPU use TF32
    matmul_precision: str
    device: str

    def as_given(self) -> dict[str, Any]:
        """Return the effective options by name."""
        return asdict(self)


def options_of(given: Mapping[str, Any], device: str, *, exported: bool) -> Options:
    """Return the options of a request for `device` cpu, gpu or gpu:N. Raises BadOption."""
    check_known(given, KNOWN)
    if exported:
        for name in ("precision", "matmul_precision"):
            if name in given:
                raise BadOption(name, given[name], _OWN)
    return Options(
        threads=count(given, "threads", usable_cores()),
        precision="" if exported else choice(given, "precision", PRECISIONS, "float32"),
        matmul_precision=choice(given, "matmul_precision", MATMUL_PRECISIONS, "default"),
        device=(device or "cpu").lower().replace("cuda", "gpu"),
    )
