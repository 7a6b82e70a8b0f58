"""A catalog model carried out by a real worker: its files brought, its samples answered."""

import json
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.manifests.reading import read_manifest_text
from mlscope.manifests.variants import variant_for
from schemas.batch import OutputsPredicted
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.plan import Subject
from services.agent.fetching.fetching import fetch_for_subject
from services.agent.host.execution import Execution
from services.agent.host.process import WorkerProcess
from services.agent.host.publishing.outcome_publisher import OutcomePublisher
from tests.services.agent.builders import MANIFESTS, FetchingHost, Kept, a_run, an_order, limits

CATALOG = MANIFESTS / "models"
SOURCES = ("torchvision", "timm", "keras", "packages", "networks")
SILENCE_S = 120.0

Features = list[dict[str, Any]]


def catalog_names(source: str) -> list[str]:
    """Return the names of a source's models."""
    return sorted(path.stem for path in (CATALOG / source).glob("*.yml"))


def model_of(name: str) -> ModelManifest:
    """Return a shipped model by its manifest's file name, whichever source it is of."""
    places = [CATALOG / kind / f"{name}.yml" for kind in SOURCES]
    places.append(CATALOG / f"{name.replace('-', '_')}.yml")
    path = next(each for each in places if each.is_file())
    manifest = read_manifest_text(path.read_text("utf-8"), path.name)
    assert isinstance(manifest, ModelManifest)
    return manifest


def dataset_of(name: str) -> DatasetManifest:
    """Return a shipped dataset."""
    path = MANIFESTS / "datasets" / f"{name.replace('-', '_')}.yml"
    manifest = read_manifest_text(path.read_text("utf-8"), path.name)
    assert isinstance(manifest, DatasetManifest)
    return manifest


def subject_of(name: str, framework: str = "", dataset: str = "") -> Subject:
    """Return a model with one thread, in a framework or its first, on a dataset or its own."""
    model = model_of(name)
    chosen = framework or model.framework.name
    return Subject(
        model=variant_for(model, chosen),
        dataset=dataset_of(dataset or model.dataset),
        framework=chosen,
        options={**model.options, "threads": 1},
        warmup=0,
        outputs=16,
    )


def features_of(answer: Any) -> Features:
    """Return the features of an answer, with or without the sample's truth beside them."""
    found: Features = answer["features"] if isinstance(answer, dict) else answer
    return found


async def answers_of(subject: Subject, folder: Path, batch_size: int = 1) -> list[Features]:
    """Return what a real worker answers to each sample of a subject's dataset."""
    samples = len(subject.dataset.samples) or 4
    run = a_run(queries=-(-samples // batch_size), level="none", timeout_s=300.0)
    order = an_order(subject, [run], batch_size=batch_size)
    kept = Kept()
    worker = await WorkerProcess.start("w", limits(folder))
    try:
        worker.keep_assets(
            await fetch_for_subject(
                subject, FetchingHost(folder / "cache", cache_max_bytes=1 << 30)
            )
        )
        await Execution(OutcomePublisher(order, kept), worker, MANIFESTS, SILENCE_S).carry_out()
    finally:
        await worker.close()
    done = kept.completed()
    assert done.tally.failed_queries == 0, done
    found: dict[int, Features] = {}
    for fact in kept.of(OutputsPredicted):
        indices = np.frombuffer(fact.sample, np.int32).tolist()
        answered = (features_of(json.loads(text)) for text in fact.texts)
        found |= dict(zip(indices, answered, strict=True))
    return [found[index] for index in sorted(found)]
