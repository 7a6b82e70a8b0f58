"""Small sessions on a GPU, planned as a scheduler plans requests, run as an agent runs a plan.

The plan comes from the machine's own announcement: which runs and variants there are, and what they
are called, is `services.scheduler`'s doing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path
from types import MappingProxyType
from typing import Any

from cli.offline.planning import shipped_catalog
from schemas.agent import Announcement
from schemas.level import Level
from schemas.manifest import ScenarioManifest
from schemas.plan import OfflinePlan
from schemas.request import Evaluate
from schemas.run import RunCompleted
from schemas.status import AgentStatus, Catalog
from schemas.values.identity import new_evaluation_id
from services.agent.default_builders import BUILDERS
from services.agent.host.announcing import announcement
from services.agent.host.offline import SHIPPED_MANIFESTS, OfflineResources, run_plan
from services.agent.link.allowances import Allowances
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan

AGENT = "gpu"
PICTURE = (3, 32, 32)
IMAGENET = (3, 224, 224)
ALLOWED = Allowances(builders=(*BUILDERS, "tests.gpu.nets", "benchmarks.survey"))
NO_LIBRARY: Mapping[str, Any] = MappingProxyType({"cudalibs": False})
"""Collectors of a wish that needs no run at level library."""
OFTEN: Mapping[str, Any] = MappingProxyType({"nvml": {"rate_hz": 100}})
"""Collectors of a wish that wants many samples of a short run."""


@cache
def shipped_scenarios() -> tuple[ScenarioManifest, ...]:
    """Return the scenarios that any cluster knows."""
    return shipped_catalog(SHIPPED_MANIFESTS).scenarios


@dataclass(frozen=True, slots=True)
class Wish:
    """What to measure: a builder's model with random weights, how deep, how often."""

    name: str
    builder: str
    level: Level = Level.SYSTEM
    framework: str = "pytorch"
    shape: Sequence[int] = PICTURE
    element_type: str = "float32"
    #: for whole numbers: the largest
    high: int = 0
    batch_size: int = 4
    scenario: str = "online"
    queries: int = 3
    blocks: int = 2
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    collectors: Mapping[str, Any] = field(default_factory=lambda: NO_LIBRARY)
    #: a file of the shipped models, as `tiny_cnn/model.onnx`, in place of a builder
    graph: str = ""
    input: str = "x"
    output: str = "y"
    serialised: bool = False
    device: str = "gpu"

    def request(self) -> Evaluate:
        """Return what one would ask a cluster for."""
        return Evaluate.model_validate(
            {
                "model": self._model(),
                "dataset": self._dataset(),
                "system": {"device": self.device},
                "scenarios": [{"name": self.scenario, "parameters": {"queries": self.queries}}],
                "batch_sizes": [self.batch_size],
                "trace_level": self.level,
                "options": dict(self.options),
                "collectors": dict(self.collectors),
                "serialised": self.serialised,
                "blocks": {"least": self.blocks, "most": self.blocks},
                "outputs": 0,
            }
        )

    def plan(self, machine: Announcement) -> OfflinePlan:
        """Return the plan of a scheduler that knows one machine, and the scenarios shipped."""
        status = AgentStatus(announcement=machine)
        catalog = Catalog(agents=(status,), scenarios=shipped_scenarios())
        request = self.request()
        found = match(request, catalog, {})
        assert found.agents, found.reasons
        planned = plan(request, found, catalog)
        return OfflinePlan(evaluation=new_evaluation_id(), plan=planned, request=request)

    def run(self, level: Level, variant: str = "") -> str:
        """Return what its run of a level is called."""
        prefix = f"b{self.batch_size}-{variant}" if variant else f"b{self.batch_size}"
        return f"{prefix}-{self.scenario}-{level.name.lower()}"

    def _model(self) -> Mapping[str, Any]:
        return {
            "kind": "model",
            "name": self.name,
            "version": "1.0.0",
            "framework": {"name": self.framework},
            "inputs": [
                {
                    "type": "raw",
                    "layer_name": self.input,
                    "element_type": self.element_type,
                    "shape": [-1, *self.shape],
                }
            ],
            "outputs": [{"type": "raw", "layer_name": self.output}],
            "model": self._assets(),
        }

    def _assets(self) -> Mapping[str, Any]:
        if not self.graph:
            arguments = dict(self.arguments)
            return {"builder": self.builder, "arguments": arguments, "weights": "random"}
        folder, _, name = self.graph.rpartition("/")
        digest = sha256((SHIPPED_MANIFESTS / "models" / self.graph).read_bytes()).hexdigest()
        address = {"base_url": f"file:{folder}/", "graph_path": name}
        return {**address, "checksum": f"sha256:{digest}"}

    def _dataset(self) -> Mapping[str, Any]:
        made: dict[str, Any] = {"samples": 8, "shape": list(self.shape), "seed": 1}
        made["element_type"] = self.element_type
        if self.high:
            made |= {"distribution": "uniform", "high": self.high}
        return {
            "kind": "dataset",
            "name": f"made-up-{self.name}",
            "version": "1.0.0",
            "synthetic": made,
        }


def measure(wish: Wish, path: Path, roofs: Path | None = None) -> dict[str, RunCompleted]:
    """Run a wish's plan into a bundle and return how each run ended; each must have completed.

    `roofs` keeps the device's roof from plan to plan.
    """
    machine = announcement(AGENT, "tests", allowances=ALLOWED)
    outcomes = run_plan(
        wish.plan(machine), path, OfflineResources(allowances=ALLOWED, roofs_folder=roofs)
    )
    broken = [each for each in outcomes if not isinstance(each, RunCompleted)]
    assert not broken, broken
    return {each.run: each for each in outcomes if isinstance(each, RunCompleted)}


_DETECTOR = "torchvision.models.detection.fasterrcnn_resnet50_fpn"
_NO_WEIGHTS: Mapping[str, Any] = {"weights": None}

WISHES: Mapping[str, Wish] = {
    each.name: each
    for each in (
        Wish(
            "resnet50-full",
            "torchvision.models.resnet50",
            Level.FULL,
            shape=IMAGENET,
            batch_size=8,
            queries=2,
            blocks=3,
            arguments=_NO_WEIGHTS,
            collectors=OFTEN,
        ),
        Wish(
            "cold",
            "torchvision.models.resnet18",
            shape=IMAGENET,
            batch_size=1,
            scenario="cold",
            queries=2,
            arguments=_NO_WEIGHTS,
        ),
        Wish(
            "serialised",
            "torchvision.models.resnet18",
            shape=IMAGENET,
            batch_size=256,
            queries=12,
            arguments=_NO_WEIGHTS,
            collectors={**NO_LIBRARY, **OFTEN},
            serialised=True,
        ),
        Wish("library", "tests.gpu.nets.tower", Level.SYSTEM, collectors={}),
        Wish("graph", "tests.gpu.nets.tower", options={"graphs": True}),
        Wish("jax", "tests.gpu.nets.scoped", framework="jax", collectors={}),
        Wish(
            "onnxruntime",
            "",
            Level.FULL,
            framework="onnxruntime",
            shape=IMAGENET,
            graph="efficientnet_lite0/model.onnx",
            input="images",
            output="logits",
            queries=2,
            collectors={},
        ),
        Wish(
            "tensorflow",
            "tests.gpu.nets.keras_tower",
            framework="tensorflow",
            shape=(32, 32, 3),
            output="dense",
        ),
        Wish(
            "detector",
            _DETECTOR,
            Level.FULL,
            shape=(3, 320, 320),
            batch_size=1,
            queries=1,
            arguments={**_NO_WEIGHTS, "weights_backbone": None},
            options={"call": "list"},
            collectors=NO_LIBRARY,
            output="0.boxes",
        ),
        Wish(
            "vit-b-16",
            "torchvision.models.vit_b_16",
            Level.FULL,
            shape=IMAGENET,
            batch_size=1,
            queries=2,
            arguments=_NO_WEIGHTS,
        ),
        Wish(
            "resnet50-roofed",
            "torchvision.models.resnet50",
            shape=IMAGENET,
            batch_size=32,
            arguments=_NO_WEIGHTS,
        ),
        Wish(
            "bert-base-roofed",
            "benchmarks.survey.networks.bert_base",
            shape=(128,),
            element_type="int64",
            high=30_000,
            batch_size=16,
        ),
        Wish(
            "detector-roofed",
            _DETECTOR,
            shape=(3, 320, 320),
            batch_size=1,
            arguments={**_NO_WEIGHTS, "weights_backbone": None},
            options={"call": "list"},
            output="0.boxes",
        ),
        Wish("compiled-graph", "tests.gpu.nets.tower", options={"compile": "reduce-overhead"}),
        Wish("compiled", "tests.gpu.nets.tower", options={"compile": "default"}),
    )
}
"""What `make test-gpu` measures on a machine with a GPU, by the name of its bundle."""
