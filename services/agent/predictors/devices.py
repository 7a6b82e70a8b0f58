"""The devices, depth and options that predictors of other packages declare.

A package declares them by an entry point in the group `mlscope.devices`: its name is the
framework's, its value a function `() -> Mapping[str, Sequence[Accelerator]]`. It returns the names
by which requests want a device (`--device fpga`), each with what was found on this machine; a name
without a device that works is left out. It imports no framework, because agents call it when they
announce themselves, and raises what it likes where it cannot look.

A package whose predictor has a method `layers` says so in the group `mlscope.levels`: the value of
its entry point is the deepest `Level` that the predictor traces by itself, `Level.FRAMEWORK`. A
request for a deep trace then measures layers in runs of their own.

A package names the options that its predictor takes in the group `mlscope.options`: the value of
its entry point is a sequence of names. Requests with others are then refused before a model opens.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from typing import cast

from schemas.agent import Accelerator
from schemas.level import Level, level_of
from services.agent.errors import DevicesNotFound
from services.agent.plug_ins import plug_ins
from services.agent.predictors import GROUP as PREDICTORS
from services.agent.predictors import SHIPPED
from services.agent.predictors.options import OPTION_NAMES

GROUP, LEVELS, OPTIONS = "mlscope.devices", "mlscope.levels", "mlscope.options"

_log = logging.getLogger(__name__)

FindDevices = Callable[[], Mapping[str, Sequence[Accelerator]]]


@dataclass(frozen=True, slots=True)
class DeclaredDevices:
    """The devices of a predictor by name; `reason` says why there is none, '' where there is."""

    names: tuple[str, ...]
    accelerators: tuple[Accelerator, ...] = ()
    reason: str = ""


def declared_devices(framework: str) -> DeclaredDevices | None:
    """Return the devices that a framework's package finds here; None where it declares none."""
    point = plug_ins(GROUP).get(framework)
    if point is None:
        return None
    try:
        by_name = _devices_by_name(point)
    except DevicesNotFound as error:
        return DeclaredDevices((), (), error.reason)
    accelerators = tuple(own for devices in by_name.values() for own in devices)
    reason = "" if by_name else "its package finds no device here"
    return DeclaredDevices(tuple(by_name), accelerators, reason)


def declared_level(framework: str) -> Level | None:
    """Return the deepest level that a framework's package declares; None if it declares none."""
    point = plug_ins(LEVELS).get(framework)
    try:
        return None if point is None else level_of(point.load())
    except Exception as error:  # noqa: BLE001 (the package's code raises what it likes)
        _log.warning("the level that %s declares cannot be read: %s", framework, error)
        return None


def option_names(framework: str) -> tuple[str, ...] | None:
    """Return the options that a framework's predictor takes; None if its package declares none."""
    if point := plug_ins(OPTIONS).get(framework):
        try:
            return tuple(map(str, point.load()))
        except Exception as error:  # noqa: BLE001 (the package's code raises what it likes)
            _log.warning("the options that %s declares cannot be read: %s", framework, error)
            return None
    predictor = plug_ins(PREDICTORS).get(framework)
    is_shipped = predictor is None or predictor.value == SHIPPED.get(framework)
    return tuple(OPTION_NAMES.get(framework, ())) or None if is_shipped else None


def _devices_by_name(point: EntryPoint) -> Mapping[str, Sequence[Accelerator]]:
    """Return what a package finds, by names in lower case. Raises DevicesNotFound."""
    try:
        declared = cast("FindDevices", point.load())()
        return {str(name).lower(): tuple(devices) for name, devices in declared.items()}
    except Exception as error:  # the package's code raises what it likes
        raise DevicesNotFound(point.name, str(error) or type(error).__name__) from error
