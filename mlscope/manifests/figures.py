"""What a manifest says of its model in numbers: accuracy, parameters, size. Pure."""

from dataclasses import dataclass

from schemas.manifest import ModelManifest

_MIB = 1 << 20
_FLOAT32_BYTES = 4
_FIRST = ("top1", "acc@1")
_NAMES = {"top1": "top-1", "acc@1": "top-1", "acc@5": "top-5", "top5": "top-5"}
_ON = " on "


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one model; None and '' are unknown. They are its source's, measured elsewhere."""

    #: by its own metric, most often percent
    accuracy: float | None = None
    metric: str = ""
    #: what it was measured on
    measured_on: str = ""
    parameters: int | None = None
    size_bytes: int | None = None
    #: whether the size is four bytes for each parameter, for want of a better one
    is_size_guessed: bool = False

    def source(self) -> str:
        """Return what the accuracy is, and of which dataset."""
        return f"{self.metric} on {self.measured_on}" if self.measured_on else self.metric


def figures_of(model: ModelManifest) -> Figures:
    """Return a model's figures; without weights there is no accuracy."""
    told = model.attributes
    parameters = told.get("parameters")
    parameters = parameters if isinstance(parameters, int) else None
    stated = told.get("weights_megabytes")
    size = int(stated * _MIB) if isinstance(stated, int | float) else None
    guessed = parameters * _FLOAT32_BYTES if parameters and size is None else None
    accuracy, metric, dataset = _accuracy(model)
    return Figures(
        accuracy=accuracy,
        metric=metric,
        measured_on=dataset,
        parameters=parameters,
        size_bytes=size if size is not None else guessed,
        is_size_guessed=guessed is not None,
    )


def _accuracy(model: ModelManifest) -> tuple[float | None, str, str]:
    """Return the first accuracy of the attributes, top-1 before others.

    Accuracies are called `top1`, `top5`, or as torchvision has them, `METRIC on DATASET`.
    """
    if model.model.weights == "random":
        return None, "", ""
    known = {
        name: float(value)
        for name, value in model.attributes.items()
        if isinstance(value, int | float) and (name in _NAMES or _ON in name)
    }
    first = sorted(known, key=lambda name: not name.startswith(_FIRST))
    if not first:
        return None, "", ""
    metric, _, dataset = first[0].partition(_ON)
    trained = str(model.attributes.get("training_dataset") or "")
    return known[first[0]], _NAMES.get(metric, metric.replace("_", " ")), dataset or trained
