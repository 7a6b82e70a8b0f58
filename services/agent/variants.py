"""What is special about the process of a session: pure, from its plan."""

from collections.abc import Mapping
from types import MappingProxyType

from mlscope.load.scenarios import COLD
from schemas.level import Level
from schemas.plan import SessionPlan, Subject, Variant


def subject_as(variant: Variant, subject: Subject) -> Subject:
    """Return what a session of a variant opens: one thread where serialised, nothing warm if cold.

    That each launch is waited for is up to the process's environment (`environment_of`).
    """
    if variant == "serialised" and subject.framework in _THREADED:
        options = {**subject.options, "threads": 1}
        several = {name: 1 for name in ("inter_threads", "intra_threads") if name in options}
        return subject.model_copy(update={"options": {**options, **several}})
    return subject.model_copy(update={"warmup": 0}) if variant == "cold" else subject


def environment_of(variant: Variant) -> dict[str, str]:
    """Return what the environment of a variant's process has beside the usual.

    CUDA_LAUNCH_BLOCKING makes each launch wait for its kernel (CUDA C++ Programming Guide).
    """
    return dict(_SERIALISED) if variant == "serialised" else {}


def traces_first(session: SessionPlan) -> bool:
    """Say whether the layers of the model's very first run are wanted."""
    return session.variant == "cold" and any(r.level >= Level.FRAMEWORK for r in session.runs)


def watched_level(session: SessionPlan) -> Level | None:
    """Return down to which level collectors are to see the model opened; None: they need not."""
    levels = [r.level for r in session.runs if r.scenario == COLD and r.level > Level.FRAMEWORK]
    return max(levels) if session.variant == "cold" and levels else None


_THREADED = frozenset({"jax", "litert", "onnxruntime", "openvino", "pytorch", "tensorflow"})
"""Frameworks whose predictors have the option `threads`."""
_SERIALISED: Mapping[str, str] = MappingProxyType(
    {"CUDA_LAUNCH_BLOCKING": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
)
