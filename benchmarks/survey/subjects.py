"""The models of the survey: by builder, with random weights, on tensors made up."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.manifest import DatasetManifest, ModelManifest
from schemas.plan import Subject

BATCH_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
PICTURE = (3, 224, 224)


@dataclass(frozen=True, slots=True)
class Net:
    """One model: its builder and what its input is like, without the batch."""

    name: str
    builder: str
    shape: tuple[int, ...] = PICTURE
    element_type: str = "float32"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    #: for whole numbers: the largest
    high: int = 0
    batch_sizes: Sequence[int] = BATCH_SIZES

    def manifest(self) -> ModelManifest:
        """Return its manifest: one input, whatever outputs it has, weights from seed 0."""
        return ModelManifest.model_validate(
            {
                "name": self.name,
                "version": "1.0.0",
                "framework": {"name": "pytorch"},
                "inputs": [
                    {
                        "type": "raw",
                        "layer_name": "x",
                        "element_type": self.element_type,
                        "shape": [-1, *self.shape],
                    }
                ],
                "outputs": [{"type": "raw", "layer_name": "0.boxes" if self.options else "y"}],
                "model": {
                    "builder": "benchmarks.survey.networks.cached_network",
                    "arguments": {"builder": self.builder, "arguments": dict(self.arguments)},
                    "weights": "random",
                },
                "options": dict(self.options),
            }
        )

    def subject(self, device: str) -> Subject:
        """Return what is measured, on a device."""
        return Subject(
            model=self.manifest(),
            dataset=self.dataset(),
            framework="pytorch",
            device=device,
            options=dict(self.options),
        )

    def dataset(self) -> DatasetManifest:
        """Return eight made-up samples."""
        synthetic: dict[str, Any] = {"samples": 8, "shape": list(self.shape), "seed": 1}
        synthetic["element_type"] = self.element_type
        if self.high:
            synthetic |= {"distribution": "uniform", "high": self.high}
        return DatasetManifest.model_validate(
            {"name": f"made-up-{self.name}", "version": "1.0.0", "synthetic": synthetic}
        )


def _vision(name: str, **arguments: Any) -> Net:
    return Net(name, f"torchvision.models.{name}", arguments={"weights": None, **arguments})


SURVEYED: tuple[Net, ...] = (
    *map(_vision, ("alexnet", "vgg16", "resnet18", "resnet50", "resnet101", "resnet152")),
    *map(_vision, ("resnext50_32x4d", "wide_resnet50_2", "densenet121", "mobilenet_v2")),
    *map(_vision, ("mobilenet_v3_large", "shufflenet_v2_x1_0", "squeezenet1_1", "mnasnet1_0")),
    _vision("googlenet", init_weights=False),
    *map(_vision, ("efficientnet_b0", "regnet_y_8gf", "convnext_tiny", "vit_b_16", "swin_t")),
    *(
        Net(
            f"timm-{name.replace('_', '-')}",
            "timm.create_model",
            arguments={"model_name": name, "pretrained": False},
        )
        for name in ("deit_tiny_patch16_224", "mixer_b16_224", "resmlp_12_224", "ghostnet_100")
    ),
)
"""Twenty of torchvision and four of timm, all on 224 x 224."""

DEEP: tuple[Net, ...] = (
    _vision("resnet50"),
    Net(
        "bert-base",
        "benchmarks.survey.networks.bert_base",
        shape=(128,),
        element_type="int64",
        high=30_000,
        batch_sizes=(1, 16),
    ),
    Net(
        "vit-b-16",
        "torchvision.models.vit_b_16",
        arguments={"weights": None},
        batch_sizes=(1, 16),
    ),
    Net(
        "fasterrcnn-resnet50-fpn",
        "torchvision.models.detection.fasterrcnn_resnet50_fpn",
        shape=(3, 480, 640),
        arguments={"weights": None, "weights_backbone": None},
        options={"call": "list"},
        batch_sizes=(1, 4),
    ),
)
"""Looked at down to their kernels and counters."""


def net_named(name: str) -> Net:
    """Return the model of a name. Raises KeyError."""
    return {net.name: net for net in (*DEEP, *SURVEYED)}[name]
