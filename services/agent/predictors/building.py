"""Builders: functions that make a model, by an import path the agent's owner allows."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from services.agent.errors import OpenFailed


def build(model: str, path: str, arguments: Mapping[str, Any], allowed: Sequence[str]) -> Any:
    """Return what the function at `path`, as `torchvision.models.resnet18`, makes.

    It may be a class's, as `package.Net.from_name`. `allowed` are import paths a builder may be,
    or lie below. Nothing is imported before that is checked. Raises OpenFailed; what the function
    itself raises is handed on.
    """
    if not any(path == each or path.startswith(f"{each}.") for each in allowed):
        raise OpenFailed(
            model, f"builder {path} is not allowed here; allowed: {', '.join(allowed) or 'none'}"
        )
    try:
        function = _found(path)
    except (ImportError, AttributeError, ValueError) as error:
        raise OpenFailed(model, f"builder {path}: {error}") from error
    if not callable(function):
        raise OpenFailed(model, f"builder {path} is no function")
    return function(**arguments)


def _found(path: str) -> Any:
    """Return what is at an import path: a module's, or that of a class in a module."""
    module, _, name = path.rpartition(".")
    owner, _, inner = module.rpartition(".")
    if inner[:1].isupper():
        return getattr(getattr(import_module(owner), inner), name)
    return getattr(import_module(module), name)
