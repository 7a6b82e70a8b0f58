"""Orders of real models, and a sink that keeps what is said."""

import asyncio
import hashlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from schemas.batch import Batch, QueriesAnswered
from schemas.manifest import DatasetManifest, FrameworkNeed, ModelManifest, Port, Sample, Synthetic
from schemas.message import Fact
from schemas.plan import RunPlan, SessionPlan, Subject, WorkOrder
from schemas.run import RunCompleted, RunFailed
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerLimits, WorkerProcess
from services.agent.host.publishing.dropped_batches import DroppedBatches
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from services.agent.link.allowances import DEFAULT_ALLOWANCES, Allowances

MANIFESTS = Path(__file__).resolve().parents[3] / "manifests"
SLEEPY = Path(__file__).resolve().parent / "sleepy"

F = TypeVar("F", bound=Fact)


def model_named(name: str) -> ModelManifest:
    """Return a shipped model."""
    return ModelManifest.model_validate(_manifest("models", name))


def dataset_named(name: str) -> DatasetManifest:
    """Return a shipped dataset."""
    return DatasetManifest.model_validate(_manifest("datasets", name))


def _manifest(kind: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((MANIFESTS / kind / f"{name}.yml").read_text())
    return found


def a_subject(
    model: str = "identity",
    dataset: str = "vectors",
    *,
    framework: str = "onnxruntime",
    **more: Any,
) -> Subject:
    """Return a shipped model with a shipped dataset."""
    return Subject(
        model=model_named(model),
        dataset=dataset_named(dataset),
        framework=framework,
        **{"options": {"threads": 1}, "warmup": 1, "outputs": 4, **more},
    )


def a_sleepy_subject(**options: Any) -> Subject:
    """Return a model that only sleeps; its file is the identity model's, unread."""
    subject = a_subject(framework="sleepy", options=options, warmup=0)
    model = subject.model.model_copy(update={"framework": FrameworkNeed(name="sleepy")})
    return subject.model_copy(update={"model": model})


def a_picture_subject(folder: Path, files: dict[str, bytes], **more: Any) -> Subject:
    """EfficientNet-Lite0 with pictures of one's own; `folder` becomes a manifests folder."""
    (folder / "datasets").mkdir(parents=True)
    model = Path("models", "efficientnet_lite0")
    shutil.copytree(MANIFESTS / model, folder / model)
    for name, body in files.items():
        (folder / "datasets" / name).write_bytes(body)
    samples = tuple(
        Sample(path=name, sha256=hashlib.sha256(body).hexdigest()) for name, body in files.items()
    )
    dataset = DatasetManifest(name="pictures", samples=samples)
    subject = a_subject("efficientnet_lite0", "photos", **more)
    return subject.model_copy(update={"dataset": dataset})


def a_run(
    run: str = "r0",
    *,
    level: str = "model",
    queries: int = 5,
    scenario: str = "online",
    pacing: str = "local",
    timeout_s: float = 60.0,
    group: int = 0,
    samples: str | None = "streamed",
    **parameters: Any,
) -> RunPlan:
    """Return a run of a few queries; all their steps are in the clock unless `samples` differ."""
    return RunPlan.model_validate(
        {
            "run": run,
            "group": group,
            "scenario": scenario,
            "parameters": {"queries": queries, "samples": samples, **parameters},
            "level": level,
            "pacing": pacing,
            "queries": queries,
            "timeout_s": timeout_s,
        }
    )


def an_order(
    subject: Subject | None = None,
    runs: Iterable[RunPlan] = (),
    *,
    batch_size: int = 1,
    attempt: int = 1,
    session: str = "s0",
) -> WorkOrder:
    """One group for agent a1."""
    plans = tuple(runs) or (a_run(),)
    return WorkOrder(
        evaluation="e1",
        attempt=attempt,
        agent="a1",
        session=SessionPlan(session=session, agent="a1", batch_size=batch_size, runs=plans),
        subject=subject or a_subject(),
        runs=tuple(plan.run for plan in plans),
    )


def raw_port(name: str, shape: tuple[int, ...]) -> Port:
    """Return a port without steps."""
    return Port(type="raw", layer_name=name, shape=shape)


def a_synthetic(shape: tuple[int, ...], samples: int = 8, **more: Any) -> DatasetManifest:
    """Return a synthetic dataset."""
    made = Synthetic(shape=shape, samples=samples, **more)
    return DatasetManifest(name="made", synthetic=made)


class Kept:
    """A sink that keeps facts and their ids in order."""

    def __init__(self) -> None:
        self.facts: list[Fact] = []
        self.ids: list[str] = []
        #: set with the first batch of queries
        self.answered = asyncio.Event()

    is_full = False

    async def put_batch(self, fact: Batch, *, id: str, cause: str) -> bool:  # noqa: A002
        """Keep a batch."""
        await self.put(fact, id=id, cause=cause)
        return True

    async def settle(self, cause: str) -> DroppedBatches:  # noqa: ARG002
        """Nothing is given up."""
        return DroppedBatches()

    def drop_refused(self, cause: str) -> None:
        """Nothing waits for room."""

    async def put(self, fact: Fact, *, id: str, cause: str) -> None:  # noqa: A002
        """Keep a fact."""
        self.facts.append(fact)
        if isinstance(fact, QueriesAnswered):
            self.answered.set()
        self.ids.append(f"{cause}:{id}")

    def of(self, kind: type[F]) -> list[F]:
        """Return the facts of a kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]

    def completed(self, run: str = "r0") -> RunCompleted:
        """How a run was completed; its failure is shown when it was not."""
        (outcome,) = [f for f in self.of(RunCompleted) + self.of(RunFailed) if f.run == run]
        assert isinstance(outcome, RunCompleted), outcome
        return outcome

    def failed(self, run: str = "r0") -> RunFailed:
        """How a run failed."""
        (outcome,) = [fact for fact in self.of(RunFailed) if fact.run == run]
        return outcome


@dataclass(frozen=True)
class FetchingHost:
    """A host's settings: a folder for its files, and no hub."""

    assets_folder: Path
    cache_max_bytes: int = 1 << 20
    fetch_hosts: tuple[str, ...] = ("public", "127.0.0.1")
    fetch_timeout_s: float = 3600.0
    hub_url: str = ""
    manifests_folder: Path = MANIFESTS
    dataset_folders: tuple[str, ...] = ()

    def hub_token(self) -> str | None:
        """Return that there is none."""
        return None


def limits(folder: Path, **changes: Any) -> WorkerLimits:
    """Limits of a test's worker, whose batches are taken as they come."""
    defaults = {"ring_bytes": 1 << 20, "spool_bytes": 1 << 20, "live_interval_s": 0.0}
    return WorkerLimits(folder, **{**defaults, **changes})


async def carried_out(
    order: WorkOrder,
    folder: Path,
    *,
    manifests: Path = MANIFESTS,
    silence_s: float = 30.0,
    allowances: Allowances = DEFAULT_ALLOWANCES,
    **changes: Any,
) -> Kept:
    """Do an order in a real worker and return what is said of it."""
    kept = Kept()
    worker = await WorkerProcess.start("w", limits(folder, **changes))
    try:
        publisher = OutcomePublisher(order, kept)
        execution = Execution(publisher, worker, manifests, silence_s, allowances)
        await execution.carry_out()
    finally:
        await worker.close()
    return kept
