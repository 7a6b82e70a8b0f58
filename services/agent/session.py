"""One opened model in the worker: files, samples, pipeline, predictor, warm-up."""

import contextlib
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.tracing.batches import Attempt
from schemas.level import Level
from schemas.manifest import DatasetManifest
from schemas.plan import Subject
from schemas.run import Conditions
from services.agent.assets import AssetFolder, ModelFiles
from services.agent.datasets import load_samples
from services.agent.errors import DatasetUnusable, OpenFailed
from services.agent.machine import package_version
from services.agent.noise import resident_bytes
from services.agent.pipeline import Pipeline, pipeline_of, steps_of
from services.agent.predictors import OpenRequest, Predictor, TensorPlace, predictor_named
from services.agent.recorder import Recorder
from services.agent.stages import Query, Slot, Stages, Supply
from services.agent.streaming import SLOTS


@dataclass(frozen=True, slots=True)
class Session:
    """What runs of one session share. `slots` are bound by the predictor as they are used."""

    subject: Subject
    supply: Supply
    predictor: Predictor
    slots: Sequence[Slot]
    checksums: Mapping[str, str]
    warmed: int

    @property
    def deepest_level(self) -> Level:
        """Return how deep the predictor can be traced."""
        return self.predictor.opened.deepest_level

    def busy_since_ns(self) -> int:
        """Return since when (CLOCK_MONOTONIC) one predict call lasts, 0 when none does."""
        return self.supply.busy.since_ns

    def conditions(self, seed: int | None, noise: Mapping[str, Any]) -> Conditions:
        """Return the conditions of a run's numbers."""
        opened = self.predictor.opened
        return Conditions(
            framework=opened.framework,
            framework_version=opened.framework_version,
            device=opened.device,
            provider=opened.provider,
            precision=opened.precision,
            threads=opened.threads,
            options=dict(opened.options),
            load_ns=opened.load_ns,
            first_run_ns=opened.first_run_ns,
            warmup_queries=self.warmed,
            rss_bytes=resident_bytes(),
            checksums=dict(self.checksums),
            seed=seed,
            mlscope_version=package_version("mlscope"),
            python_version=platform.python_version(),
            noise=dict(noise),
        )

    def close(self) -> None:
        """Close the predictor."""
        self.predictor.close()


def open_session(
    subject: Subject, batch_size: int, manifests_folder: Path, scratch: Path
) -> Session:
    """Open a subject at a batch size and warm it up. Raises AgentError."""
    files = ModelFiles(AssetFolder(manifests_folder, "models"), subject.model)
    folder = AssetFolder(manifests_folder, "datasets")
    pipeline = pipeline_of(steps_of(subject.model), files.labels)
    samples = load_samples(subject.dataset, folder)
    predictor = _open_predictor(subject, files, batch_size, scratch)
    with contextlib.ExitStack() as undo:
        undo.callback(predictor.close)
        slots = _slots(subject, predictor.opened.inputs, batch_size)
        _check_samples(subject.dataset, samples, slots[0], pipeline)
        supply = Supply(pipeline, samples, batch_size)
        warm_up(supply, predictor, slots, subject.warmup)
        undo.pop_all()
    checksums = {**files.checksums, **folder.checksums}
    return Session(subject, supply, predictor, slots, checksums, subject.warmup)


def warm_up(supply: Supply, predictor: Predictor, slots: Sequence[Slot], queries: int) -> None:
    """Send queries through that leave nothing behind, each slot in turn. Raises PredictFailed."""
    nobody = Recorder(_NOBODY, lambda _: True)
    stages = Stages(supply, predictor.predict, nobody, Level.NONE, records_queries=False)
    for index in range(queries):
        first = index * supply.batch_size
        samples = [(first + each) % len(supply.samples) for each in range(supply.batch_size)]
        query, slot = Query(index, samples, 0), slots[index % len(slots)]
        stages.prepare(query, slot)
        query.outputs = predictor.predict(slot.inputs)
        stages.finish(query)


def _open_predictor(
    subject: Subject, files: ModelFiles, batch_size: int, scratch: Path
) -> Predictor:
    graph_path, graph = files.graph()
    request = OpenRequest(
        model=subject.model,
        graph_path=graph_path,
        graph=graph,
        batch_size=batch_size,
        device=subject.device,
        options=subject.options,
        weights_path=files.weights(),
        scratch=scratch,
    )
    return predictor_named(subject.framework)(request)


def _slots(subject: Subject, inputs: Sequence[TensorPlace], batch_size: int) -> list[Slot]:
    """Return room for batches; what the model leaves free the manifest's shape fills."""
    if len(inputs) != 1:
        raise OpenFailed(subject.model.name, f"has {len(inputs)} inputs; datasets supply one")
    place, wanted = inputs[0], subject.model.inputs[0].shape
    if len(wanted) == len(place.shape):
        shape = tuple(b if a == -1 else a for a, b in zip(place.shape, wanted, strict=True))
        place = replace(place, shape=shape)
    shape = place.shape[1:]
    if -1 in shape and subject.dataset.synthetic is not None:
        shape = subject.dataset.synthetic.shape
    if -1 in shape:
        reason = f"input {place.name} has free dimensions {shape}; give them in the manifest"
        raise OpenFailed(subject.model.name, reason)
    whole = (batch_size, *shape)
    return [Slot(place.name, np.zeros(whole, place.element_type)) for _ in range(SLOTS)]


def _check_samples(
    dataset: DatasetManifest, samples: Sequence[Any], slot: Slot, pipeline: Pipeline
) -> None:
    if not isinstance(samples, np.ndarray):
        if not pipeline.before:
            raise DatasetUnusable(dataset.name, "holds files, but the model has no step for them")
        return
    if pipeline.before:
        if pipeline.before[0].name == "decode":
            raise DatasetUnusable(dataset.name, "holds tensors, but the model decodes files")
        return
    if samples.shape[1:] != slot.array.shape[1:] or samples.dtype != slot.array.dtype:
        found = f"{samples.dtype}{list(samples.shape[1:])}"
        takes = f"{slot.array.dtype}{list(slot.array.shape[1:])}"
        raise DatasetUnusable(dataset.name, f"holds {found}, the model takes {takes}")


_NOBODY = Attempt("none", "none", 0, "none")
