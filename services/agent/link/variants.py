"""How a session's variant changes its process: environment, subject and tracing. Pure."""

from collections.abc import Mapping
from types import MappingProxyType

from mlscope.load.scenarios import COLD
from schemas.level import Level
from schemas.plan import SessionPlan, Subject, Variant


def variant_subject(variant: Variant, subject: Subject) -> Subject:
    """Return the subject as a session of a variant opens it.

    A serialised session uses one thread (`variant_environment` makes each kernel launch wait); a
    cold session has no warm-up queries.
    """
    if variant == "serialised" and subject.framework in _THREADED:
        options = {**subject.options, "threads": 1}
        pools = {name: 1 for name in ("inter_threads", "intra_threads") if name in options}
        return subject.model_copy(update={"options": {**options, **pools}})
    return subject.model_copy(update={"warmup": 0}) if variant == "cold" else subject


def variant_environment(variant: Variant) -> dict[str, str]:
    """Return the variables that a variant adds to the environment of its process.

    CUDA_LAUNCH_BLOCKING makes each launch wait for its kernel (CUDA C++ Programming Guide).
    """
    return dict(_SERIALISED) if variant == "serialised" else {}


def traces_first(session: SessionPlan) -> bool:
    """Return whether to trace the layers of the model's first run."""
    return session.variant == "cold" and any(r.level >= Level.FRAMEWORK for r in session.runs)


def opening_collector_level(session: SessionPlan) -> Level | None:
    """Return the deepest level at which collectors observe the opening of the model, or None."""
    levels = [
        run.level for run in session.runs if run.scenario == COLD and run.level > Level.FRAMEWORK
    ]
    return max(levels) if session.variant == "cold" and levels else None


_THREADED = frozenset({"jax", "litert", "onnxruntime", "openvino", "pytorch", "tensorflow"})
"""Frameworks whose predictors take the option `threads`."""
_SERIALISED: Mapping[str, str] = MappingProxyType(
    {"CUDA_LAUNCH_BLOCKING": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
)
