"""How a run's arrays reach a GPU and its outputs return: conditions, and what to say of them."""

from collections.abc import Mapping

from schemas.run import Conditions
from services.agent.predictors import Opened, PartsSource, Predictor
from services.agent.predictors.page_locking import PAGEABLE

UNKNOWN = "unknown"
"""A kind of memory that a predictor on a GPU does not say."""
APART, TOGETHER = "apart", "together"
"""Whether a call's copies are timed separately from its computing."""


def copy_conditions(opened: Opened, predictor: Predictor) -> Mapping[str, str]:
    """Return the conditions of copies by a `predictor` that is `opened`; none off a GPU."""
    if opened.device != "gpu":
        return {}
    return {
        "host_memory": opened.host_memory or UNKNOWN,
        "output_memory": opened.output_memory or UNKNOWN,
        "copies": APART if isinstance(predictor, PartsSource) else TOGETHER,
    }


def copy_caveats(conditions: Conditions, reason: str = "") -> list[str]:
    """Return what a reader must know of a run's copies, by its `conditions`.

    `reason` says why memory is pageable, '' where the framework offers no other. Inputs that stand
    on the device before the clock starts are not copied.
    """
    kinds = {"outputs into": conditions.output_memory}
    if conditions.inputs != "device":
        kinds = {"inputs from": conditions.host_memory, **kinds}
    framework, caveats = conditions.framework, []
    if slow := [place for place, kind in kinds.items() if kind == PAGEABLE]:
        caveats.append(
            f"{framework} copies {' and '.join(slow)} pageable memory, which a GPU copies more "
            f"slowly than page-locked memory{f' ({reason})' if reason else ''}"
        )
    if UNKNOWN in kinds.values():
        caveats.append(f"{framework} does not say whether a GPU copies page-locked memory")
    if conditions.copies == TOGETHER:
        caveats.append(
            f"copies are not timed separately from computing for {framework}: predict includes both"
        )
    return caveats
