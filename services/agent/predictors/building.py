"""Call builders: functions that make a model, at an import path that the agent's owner allows."""

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from mlscope.manifests.builders import current_path, is_allowed
from services.agent.errors import OpenFailed


def build(model: str, path: str, arguments: Mapping[str, Any], allowed: Sequence[str]) -> Any:
    """Return what the function at an import path returns.

    `model` names the model in errors; `path` is like `torchvision.models.resnet18`, or like
    `package.Net.from_name` for a method of a class; `arguments` are the function's; `allowed` are
    the import paths that a builder may be or lie below. Nothing is imported before that is checked.
    Raises OpenFailed, and whatever the function raises.
    """
    if not is_allowed(path, allowed):
        raise OpenFailed(
            model, f"builder {path} is not allowed here; allowed: {', '.join(allowed) or 'none'}"
        )
    owner_path, _, name = current_path(path).rpartition(".")
    module, _, class_name = owner_path.rpartition(".")
    try:
        if class_name[:1].isupper():
            owner = getattr(import_module(module), class_name)
        else:
            owner = import_module(owner_path)
        function = getattr(owner, name)
    except (ImportError, AttributeError, ValueError) as error:
        raise OpenFailed(model, f"builder {path}: {error}") from error
    if not callable(function):
        raise OpenFailed(model, f"builder {path} is not a function")
    return function(**arguments)
