"""Published figures of a model from its manifest: accuracy, parameters, size. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from schemas.manifest import ModelManifest

_MIB = 1 << 20
_FLOAT32_BYTES = 4
_TOP_1 = ("top1", "acc@1")
_PERCENT, _PIXELS = "%", " px"
_METRICS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "top1": ("top-1", _PERCENT),
        "acc@1": ("top-1", _PERCENT),
        "acc@5": ("top-5", _PERCENT),
        "top5": ("top-5", _PERCENT),
        "box_map": ("box mAP", _PERCENT),
        "mask_map": ("mask mAP", _PERCENT),
        "kp_map": ("keypoint mAP", _PERCENT),
        "miou": ("mean IoU", _PERCENT),
        "pixel_acc": ("pixel accuracy", _PERCENT),
        "fl_all": ("flow outliers", _PERCENT),
        "epe": ("end-point error", _PIXELS),
        "per_image_epe": ("end-point error by image", _PIXELS),
    }
)
"""What metrics are called, and in which unit they are published, by their names in attributes."""
_UNITS = dict(_METRICS.values())
_WITHOUT_DATASET = ("top1", "acc@1", "acc@5", "top5")
_ON = " on "


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one model as its source publishes them; None and '' are unknown."""

    #: in the unit of `metric`, most often per cent
    accuracy: float | None = None
    metric: str = ""
    #: the dataset of the accuracy
    measured_on: str = ""
    parameters: int | None = None
    size_bytes: int | None = None
    #: whether the size is an estimate of four bytes a parameter
    is_size_guessed: bool = False

    def source(self) -> str:
        """Return the metric and dataset of the accuracy."""
        return f"{self.metric} on {self.measured_on}" if self.measured_on else self.metric


def figures_of(model: ModelManifest) -> Figures:
    """Return a model's figures; a model with random weights has no accuracy."""
    parameters = model.attributes.get("parameters")
    parameters = parameters if isinstance(parameters, int) else None
    mebibytes = model.attributes.get("weights_megabytes")
    size = int(mebibytes * _MIB) if isinstance(mebibytes, int | float) else None
    estimate = parameters * _FLOAT32_BYTES if parameters and size is None else None
    accuracy, metric, dataset = accuracy_of(model)
    return Figures(
        accuracy=accuracy,
        metric=metric,
        measured_on=dataset,
        parameters=parameters,
        size_bytes=size if size is not None else estimate,
        is_size_guessed=estimate is not None,
    )


def accuracy_of(model: ModelManifest) -> tuple[float | None, str, str]:
    """Return the accuracy, metric and dataset of the first accuracy among the attributes.

    Top-1 comes before others. Names are `top1`, `top5`, or torchvision's `METRIC on DATASET`.
    """
    if model.model.weights == "random":
        return None, "", ""
    accuracies = {
        name: float(value)
        for name, value in model.attributes.items()
        if isinstance(value, int | float) and (name in _WITHOUT_DATASET or _ON in name)
    }
    names = sorted(accuracies, key=lambda name: not name.startswith(_TOP_1))
    if not names:
        return None, "", ""
    metric, _, dataset = names[0].partition(_ON)
    trained = str(model.attributes.get("training_dataset") or "")
    title, _ = _METRICS.get(metric, (metric.replace("_", " "), ""))
    return accuracies[names[0]], title, dataset or trained


def accuracy_text(accuracy: float, metric: str) -> str:
    """Return an accuracy with the unit in which its `metric` is published: `74.83%`.

    A number up to 1 may be a share as well as per cent, so it has no unit then.
    """
    unit = _UNITS.get(metric, "")
    may_be_share = unit == _PERCENT and accuracy <= 1
    return f"{accuracy:g}{'' if may_be_share else unit}"
