"""Load PyTorch's models: from a builder, TorchScript or an exported program; prepare and call them.

No pickle that could run code is loaded: weights are safetensors, or a state dict read with
`weights_only`; exported programs are checked first; TorchScript's pickles are read by its own
reader, which runs no Python.
"""

import io
import re
from collections.abc import Callable, Iterable, Sequence
from pickle import UnpicklingError
from typing import Any

import torch

from schemas.manifest import Port
from services.agent.errors import BadOption, OpenFailed
from services.agent.predictors import OpenRequest
from services.agent.predictors.building import build
from services.agent.predictors.naming import takes_names
from services.agent.predictors.pytorch.archive import load_exported
from services.agent.predictors.pytorch.feed import DTYPES
from services.agent.predictors.pytorch.options import Options
from services.agent.predictors.pytorch.weights import WeightWatch

_QUANTIZED = re.compile(r"torch\.ao\.nn\.(.+\.)?quantized(\.|$)")
"""Packages of quantized modules."""
_ON_CPUS = "cpu: PyTorch has quantized layers only for CPUs"
_FORMATS = {
    ".pt2": "exported",
    ".ts": "torchscript",
    ".pt": "torchscript",
    ".pth": "torchscript",
}


def load(request: OpenRequest, watch: WeightWatch) -> Any:
    """Return the request's module on the CPU; `watch` times the loading of its weights.

    Raises OpenFailed and PyTorch's own errors.
    """
    assets = request.model.model
    if assets.builder:
        torch.manual_seed(assets.seed)
        module = build(request.model.name, assets.builder, assets.arguments, request.builders)
        load_weights(module, request, watch)
        return module
    form = assets.format or _FORMATS.get(request.graph_path.suffix.lower(), "")
    if form == "torchscript":
        return torch.jit.load(io.BytesIO(request.graph), map_location="cpu")
    if form == "exported":
        return load_exported(request.graph)
    raise OpenFailed(
        request.model.name,
        f"format {form or request.graph_path.suffix!r} is not one of torchscript, exported, "
        "and no builder is named",
    )


def load_weights(module: Any, request: OpenRequest, watch: WeightWatch) -> None:
    """Load the weights that a `request` names into a `module`, timed by `watch`.

    Raises OpenFailed, and PyTorch's own errors for weights that do not fit.
    """
    path = request.weights_path
    if path is None:
        if "random" not in (request.model.model.weights, request.options.get("weights")):
            raise OpenFailed(
                request.model.name,
                "the manifest's builder needs weights_path, or `weights: random` and a seed",
            )
        return
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file  # an optional dependency

        state = load_file(path)
    else:
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
        except UnpicklingError as error:
            raise OpenFailed(
                request.model.name,
                f"{path.name} is a pickle of more than tensors and plain data, which may run "
                "code; save only its state_dict, or use safetensors",
            ) from error
    with watch.loading(module):
        module.load_state_dict(state.get("state_dict", state))


def prepared(module: Any, options: Options, watch: WeightWatch) -> Any:
    """Return a `module` on its device, in the precision, layout and mode of the `options`.

    `watch` times the move of its weights to a GPU. Raises BadOption for a quantized module there:
    on a GPU it may end the process.
    """
    if hasattr(module, "eval") and not isinstance(module, torch.fx.GraphModule):
        module = module.eval()
    if options.device == "cpu":
        module = module.to(options.device)
    elif is_quantized(module):
        raise BadOption("device", options.device, _ON_CPUS)
    else:
        with watch.placing(module):
            module = module.to(options.device)
    if options.precision != "float32":
        module = module.to(DTYPES[options.precision])
    if options.channels_last:
        module = module.to(memory_format=torch.channels_last)
    if options.compile != "none":
        module = torch.compile(module, mode=options.compile)
    return module


def caller_of(
    module: Any, ports: Sequence[Port], options: Options
) -> Callable[[list[torch.Tensor]], Any]:
    """Return a function that calls a `module` with its inputs in the order of the `ports`.

    These are the manifest's. The `options` say whether it takes inputs by place, by keyword, or as
    one list.
    """
    names = [port.layer_name for port in ports]
    if options.call == "list":
        return lambda tensors: module(list(tensors[0].unbind()))
    by_name = options.call == "keyword" or (
        options.call == "auto" and takes_names(getattr(module, "forward", None), names)
    )
    if by_name:
        return lambda tensors: module(**dict(zip(names, tensors, strict=True)))
    return lambda tensors: module(*tensors)


def is_quantized(module: Any) -> bool:
    """Return whether a `module` has quantized parts: packed weights are no parameters."""
    parts: Iterable[Any] = getattr(module, "modules", tuple)()
    return any(_QUANTIZED.match(type(part).__module__) for part in parts)


def precision_of(module: Any, options: Options) -> str:
    """Return the types that the model computes in: those of its parameters, or int8."""
    parameters: Iterable[torch.Tensor] = getattr(module, "parameters", tuple)()
    names = {str(parameter.dtype).removeprefix("torch.") for parameter in parameters}
    text = "+".join(sorted(names or {options.precision}))
    if is_quantized(module):
        return f"int8 (quantized {text})"
    if options.allow_tf32 and options.device.startswith("cuda") and text == "float32":
        return "float32 (tf32 allowed)"
    return text
