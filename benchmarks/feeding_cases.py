"""Models and batch sizes that feeding is measured with, and the effort of a measurement."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.host_device import GRAPHS, HALF
from benchmarks.survey.listed import Listed
from benchmarks.survey.subjects import net_named
from schemas.manifest import ModelManifest
from schemas.plan import Subject
from schemas.request import Blocks

RESNET = "torchvision-resnet50"
NATIVE = "fast_image_resize"


@dataclass(frozen=True)
class Effort:
    """Where a case is measured, and for how long."""

    device: str = "gpu"
    rounds: int = 5
    #: how long a block of the model alone takes, about
    block_s: float = 1.0
    #: samples of a streamed block, about
    streamed_samples: int = 3000


FULL = Effort()
TRIAL = Effort("cpu", 2, 0.2, 16)
"""Shows on any machine that all of it runs; its figures say nothing."""


@dataclass(frozen=True)
class Case:
    """A model at a batch size, and the options that it is opened with."""

    name: str
    model: str
    batch_size: int
    options: Mapping[str, Any] = field(default_factory=dict)
    #: what resizes the pictures, where it is not the manifest's own
    resized_by: str = ""
    #: what builds the network, where it is not the manifest's own
    builder: str = ""

    def subject(self, effort: Effort = FULL) -> Subject:
        """Return what is measured: a model of the catalog with random weights, or the survey's."""
        if self.model == "bert-base":
            subject = net_named(self.model).subject(effort.device)
        else:
            subject = Listed(self.model, is_random=True).subject(effort.device)
        rule = Blocks(least=effort.rounds, most=effort.rounds)
        options = {**subject.options, **self.options}
        model = resized_by(self.resized_by, subject.model) if self.resized_by else subject.model
        if self.builder:
            assets = model.model.model_copy(update={"builder": self.builder, "arguments": {}})
            model = model.model_copy(update={"model": assets})
        changes = {"model": model, "options": options, "outputs": 0, "blocks": rule}
        return subject.model_copy(update=changes)


def resized_by(library: str, model: ModelManifest) -> ModelManifest:
    """Return a model whose step resize uses a library."""
    (port,) = model.inputs
    steps = tuple(
        step.model_copy(update={"parameters": {**step.parameters, "library": library}})
        if step.operator == "resize"
        else step
        for step in port.steps
    )
    return model.model_copy(update={"inputs": (port.model_copy(update={"steps": steps}),)})


CASES = [
    *(Case(f"resnet50 float32 {n}", RESNET, n) for n in (1, 32, 256)),
    *(Case(f"resnet50 bfloat16 {n}", RESNET, n, HALF) for n in (1, 32, 256)),
    *(Case(f"convnext-tiny {n}", "torchvision-convnext-tiny", n) for n in (1, 32)),
    Case("deeplabv3 1", "torchvision-deeplabv3-resnet50", 1),
    Case("bert-base 8", "bert-base", 8),
    Case("resnet50 bfloat16 256, native", RESNET, 256, HALF, NATIVE),
    Case("resnet50 float32 1, graph", RESNET, 1, GRAPHS),
    *(Case(f"resnet50 bfloat16 {n}, graph", RESNET, n, HALF | GRAPHS) for n in (1, 32)),
    Case("convnext-tiny 1, graph", "torchvision-convnext-tiny", 1, GRAPHS),
]
SMALL = "benchmarks.survey.networks.small_classifier"
TRIAL_CASES = [
    Case("small float32 2", RESNET, 2, builder=SMALL),
    Case("small float32 2, native", RESNET, 2, resized_by=NATIVE, builder=SMALL),
]
