"""PyTorch: models from a builder, TorchScript or an exported program; eager or compiled."""

import torch

from services.agent.errors import OpenFailed
from services.agent.predictors import OpenRequest
from services.agent.predictors.boundary import opening_model
from services.agent.predictors.opening import Opening
from services.agent.predictors.pytorch.gpu import GpuPredictor
from services.agent.predictors.pytorch.models import load, prepared
from services.agent.predictors.pytorch.opened import PyTorchPredictor
from services.agent.predictors.pytorch.options import options_of, place_of
from services.agent.predictors.pytorch.weights import WeightWatch
from services.agent.predictors.shapes import first_line


def open_model(request: OpenRequest) -> "PyTorchPredictor":
    """Open a model. Raises BadOption, OpenFailed, BatchSizeUnsupported."""
    options = options_of(
        request.options, request.device, has_gpu=sees_gpu(place_of(request.device))
    )
    # These hold for the process: one worker opens one model.
    torch.set_num_threads(options.threads)
    if torch.get_num_interop_threads() != options.inter_threads:
        try:
            torch.set_num_interop_threads(options.inter_threads)
        except RuntimeError as error:
            # PyTorch allows this only once in a process, before its first work.
            raise OpenFailed("pytorch", f"inter_threads: {first_line(error)}") from error
    torch.backends.cuda.matmul.allow_tf32 = options.allow_tf32
    torch.backends.cudnn.allow_tf32 = options.allow_tf32
    opening, watch = Opening(request), WeightWatch(is_on=request.traces_first)
    with opening_model(request.model.name):
        module = prepared(load(request, watch), options, watch)
    predictor_type = GpuPredictor if options.device.startswith("cuda") else PyTorchPredictor
    predictor = predictor_type(request, options, module)
    opening.mark_loaded(watch.moves)
    if all(port.shape for port in request.model.inputs):
        predictor.settle(opening.run_first(predictor))
    else:
        opening.record_costs(predictor)
    return predictor


def sees_gpu(place: str) -> bool:
    """Return whether this PyTorch sees a GPU of the kind that a place is."""
    if place == "mps":
        return bool(torch.backends.mps.is_available())
    return bool((torch.xpu if place.startswith("xpu") else torch.cuda).is_available())
