"""Plans of small sessions on a GPU, run as an agent runs an offline plan: a worker for each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from schemas.identity import new_evaluation_id
from schemas.level import Level
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.plan import OfflinePlan, Plan, RunPlan, SessionPlan, Subject
from schemas.request import Blocks
from schemas.run import RunCompleted
from services.agent.allowances import Allowances
from services.agent.offline import Means, run_plan
from services.agent.predictors import BUILDERS

AGENT = "gpu"
PICTURE = (3, 32, 32)
ALLOWED = Allowances(builders=(*BUILDERS, "tests.gpu.nets"))


@dataclass(frozen=True, slots=True)
class Wish:
    """What to measure: a builder's model with random weights, at which levels, how often."""

    name: str
    builder: str
    levels: Sequence[Level] = (Level.MODEL, Level.FRAMEWORK, Level.SYSTEM)
    framework: str = "pytorch"
    shape: Sequence[int] = PICTURE
    batch_size: int = 4
    queries: int = 3
    blocks: int = 2
    arguments: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    output: str = "y"
    counted: bool = False

    def plan(self) -> OfflinePlan:
        """Return one session with a run a level, and where counters are wanted one for them."""
        sessions = [self._session("plain", self.levels)]
        if self.counted:
            apart = self._session("counters", [Level.HARDWARE])
            sessions.append(apart.model_copy(update={"variant": "counters"}))
        plan = Plan(subject=self._subject(), sessions=tuple(sessions))
        return OfflinePlan(evaluation=new_evaluation_id(), plan=plan)

    def _session(self, name: str, levels: Sequence[Level]) -> SessionPlan:
        runs = tuple(
            RunPlan(
                run=f"{name}-{level.name.lower()}",
                group=0,
                scenario="online",
                parameters={"queries": self.queries},
                level=level,
                queries=self.queries,
            )
            for level in levels
        )
        size = self.batch_size
        return SessionPlan(session=name, agent=AGENT, batch_size=size, runs=runs)

    def _subject(self) -> Subject:
        port = {"type": "raw", "layer_name": "x", "shape": [-1, *self.shape]}
        manifest = {
            "name": self.name,
            "version": "1.0.0",
            "framework": {"name": self.framework},
            "inputs": [port],
            "outputs": [{"type": "raw", "layer_name": self.output}],
            "model": {"builder": self.builder, "arguments": self.arguments, "weights": "random"},
        }
        made = {"samples": 8, "shape": list(self.shape), "seed": 1}
        dataset = {"name": f"made-up-{self.name}", "version": "1.0.0", "synthetic": made}
        return Subject(
            model=ModelManifest.model_validate(manifest),
            dataset=DatasetManifest.model_validate(dataset),
            framework=self.framework,
            device="gpu",
            options=dict(self.options),
            warmup=3,
            blocks=Blocks(least=self.blocks, most=self.blocks),
            outputs=0,
        )


def measure(wish: Wish, path: Path) -> dict[str, RunCompleted]:
    """Run a wish's plan into a bundle and return how each run ended; each must have completed."""
    outcomes = run_plan(wish.plan(), path, Means(allowed=ALLOWED))
    broken = [each for each in outcomes if not isinstance(each, RunCompleted)]
    assert not broken, broken
    return {each.run: each for each in outcomes if isinstance(each, RunCompleted)}


_DETECTOR = "torchvision.models.detection.fasterrcnn_resnet50_fpn"
_NO_WEIGHTS: Mapping[str, Any] = {"weights": None}
_ALL = (Level.MODEL, Level.FRAMEWORK, Level.LIBRARY, Level.SYSTEM)

WISHES: Mapping[str, Wish] = {
    each.name: each
    for each in (
        Wish("library", "tests.gpu.nets.tower", _ALL),
        Wish("graph", "tests.gpu.nets.tower", options={"graphs": True}),
        Wish("compiled", "tests.gpu.nets.tower", options={"compile": "default"}),
        Wish("compiled-graph", "tests.gpu.nets.tower", options={"compile": "reduce-overhead"}),
        Wish("jax", "tests.gpu.nets.scoped", _ALL, framework="jax"),
        Wish(
            "resnet50-full",
            "torchvision.models.resnet50",
            _ALL,
            shape=(3, 224, 224),
            batch_size=8,
            queries=2,
            arguments=_NO_WEIGHTS,
            counted=True,
        ),
        Wish(
            "vit-b-16",
            "torchvision.models.vit_b_16",
            shape=(3, 224, 224),
            batch_size=1,
            queries=2,
            arguments=_NO_WEIGHTS,
        ),
        Wish(
            "detector",
            _DETECTOR,
            shape=(3, 320, 320),
            batch_size=1,
            queries=1,
            arguments={**_NO_WEIGHTS, "weights_backbone": None},
            options={"call": "list"},
            output="0.boxes",
        ),
    )
}
"""What `make test-gpu` measures on a machine with a GPU, by the name of its bundle."""
