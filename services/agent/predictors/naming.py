"""Name inputs and outputs after the manifest, where the model has other names."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from schemas.manifest import Port


def names_for(own: Sequence[str], ports: Sequence[Port]) -> list[str]:
    """Return a name for each of a model's inputs or outputs, in the model's order.

    The model's `own` names are kept if the manifest uses any of them. Otherwise the names of the
    manifest's `ports` replace them in order.
    """
    manifest_names = [port.layer_name for port in ports[: len(own)]]
    if not all(manifest_names) or set(manifest_names) & set(own):
        return list(own)
    return [*manifest_names, *own[len(manifest_names) :]]


def takes_names(
    function: Callable[..., Any] | None, names: Sequence[str], skipped: int = 0
) -> bool:
    """Say whether several inputs are all names of the function's arguments.

    `names`: those of the inputs; `skipped`: leading arguments that are no inputs. False for a
    single input, and for a function without a signature.
    """
    if len(names) < 2 or function is None:
        return False
    try:
        arguments = list(inspect.signature(function).parameters)[skipped:]
    except (TypeError, ValueError):
        return False
    return all(name in arguments for name in names)
