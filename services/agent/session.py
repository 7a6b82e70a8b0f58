"""One opened model in the worker: files, samples, pipeline, predictor, warm-up."""

import contextlib
import platform
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlscope.manifests.figures import figures_of
from mlscope.tracing.batches import Attempt
from schemas.level import Level
from schemas.manifest import DatasetManifest
from schemas.plan import Subject
from schemas.run import Conditions
from services.agent.allowances import NO_MORE, Allowances
from services.agent.assets import NOTHING, AssetFolder, Brought, ModelFiles
from services.agent.collecting import Collecting, Occasion, open_collecting
from services.agent.datasets import load_samples, truths_of
from services.agent.errors import DatasetUnusable, MemoryExhausted, PredictFailed
from services.agent.inline import Inline, check_code, open_inline
from services.agent.inputs import inputs_of
from services.agent.machine import accelerator_names, package_version, processor_name
from services.agent.noise import resident_bytes
from services.agent.outputs import check_outputs
from services.agent.pipeline import Pipeline, pipeline_of, steps_in, steps_of
from services.agent.predictors import (
    Opened,
    OpenRequest,
    Predictor,
    TensorPlace,
    predictor_named,
)
from services.agent.predictors.options import usable_cores
from services.agent.predictors.verified import doubt_of
from services.agent.query import Query, Slot
from services.agent.recorder import Recorder
from services.agent.samples import first_readable
from services.agent.stages import Stages, Supply
from services.agent.streaming import SLOTS, workers_for
from services.agent.weights import with_weights_chosen


@dataclass(frozen=True, slots=True)
class Session:
    """What runs of one session share. `slots` are bound by the predictor as they are used."""

    subject: Subject
    supply: Supply
    predictor: Predictor
    slots: Sequence[Slot]
    checksums: Mapping[str, str]
    warmed: int
    #: what a reader of its results should know
    notes: Sequence[str] = ()
    inline: Inline = field(default_factory=Inline)
    #: what collectors saw of its opening, for the run that is of it
    watched: Collecting | None = None
    #: tells this opening of the model from any other
    opened: str = field(default_factory=lambda: secrets.token_hex(8))

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
            processor="" if opened.device == "remote" else processor_name(),
            accelerator=accelerator_names(opened.device),
            precision=opened.precision,
            threads=opened.threads,
            options=dict(opened.options),
            load_ns=opened.load_ns,
            first_run_ns=opened.first_run_ns,
            memory_bytes=opened.memory_bytes,
            device_memory_bytes=opened.device_memory_bytes,
            model_size_bytes=figures_of(self.subject.model).size_bytes,
            prepare_threads=self.supply.workers,
            warmup_queries=self.warmed,
            rss_bytes=resident_bytes(),
            checksums=dict(self.checksums),
            seed=seed,
            opened=self.opened,
            mlscope_version=package_version("mlscope"),
            python_version=platform.python_version(),
            noise=dict(noise),
        )

    def close(self) -> None:
        """Close the predictor, and end the processes of inline code."""
        self.inline.close()
        self.predictor.close()
        if self.watched is not None:
            self.watched.close()


def open_session(
    subject: Subject,
    batch_size: int,
    manifests_folder: Path,
    scratch: Path,
    brought: Mapping[str, Brought] = NOTHING,
    allowed: Allowances = NO_MORE,
) -> Session:
    """Open a subject at a batch size and warm it up. Raises AgentError."""
    return open_in(Place(scratch, allowed), subject, batch_size, manifests_folder, brought)


def open_in(
    place: "Place",
    subject: Subject,
    batch_size: int,
    manifests_folder: Path,
    brought: Mapping[str, Brought],
) -> Session:
    """Open a subject at a batch size in a place and warm it up. Raises AgentError."""
    scratch, allowed = place.scratch, place.allowed
    subject = with_weights_chosen(subject)
    check_code(subject.model, allowed.inline)
    files = ModelFiles(AssetFolder(manifests_folder, "models"), subject.model, brought, scratch)
    folder = AssetFolder(manifests_folder, "datasets", brought, scratch)
    try:
        return _opened(subject, batch_size, files, folder, place)
    except MemoryError as error:
        # Another attempt would end the same way: final, and no crash of the worker's.
        raise MemoryExhausted(batch_size, str(error) or "no memory") from error


@dataclass(frozen=True, slots=True)
class Place:
    """Where a session is opened: where it may write, and what the agent's owner allows."""

    scratch: Path
    allowed: Allowances = NO_MORE
    #: trace the layers of the model's very first run
    traces_first: bool = False
    #: what collectors are to see the opening for
    occasion: Occasion | None = None


def _opened(
    subject: Subject, batch_size: int, files: ModelFiles, folder: AssetFolder, place: Place
) -> Session:
    pipeline = pipeline_of(steps_of(subject.model), files.labels)
    samples: Sequence[Any] = ()
    if subject.dataset.synthetic is None:
        samples = load_samples(subject.dataset, folder)
    request = _open_request(subject, files, batch_size, place)
    # Profilers of a framework are there once it is imported.
    open_model = predictor_named(subject.framework)
    with contextlib.ExitStack() as undo:
        watched = _watching(place, undo)
        with contextlib.nullcontext() if watched is None else watched.watch():
            predictor = open_model(request)
        undo.callback(predictor.close)
        inputs = inputs_of(subject.model, predictor.opened.inputs, subject.dataset, batch_size)
        supplied = [each.name for each in inputs.supplied]
        limits = place.allowed.inline
        inline = open_inline(subject, batch_size, limits, supplied, files.further)
        undo.callback(inline.close)
        pipeline = replace(
            inputs.named(pipeline), code_before=inline.before, code_behind=inline.behind
        )
        check_outputs(subject.model, predictor.opened.outputs, pipeline)
        if subject.dataset.synthetic is not None:
            _check_described(subject.dataset, pipeline)
            samples = load_samples(subject.dataset, folder, inputs.supplied)
        first = first_readable(subject.dataset.name, samples)
        _check_samples(subject.dataset, first, inputs.supplied, pipeline)
        slots = [inputs.slot() for _ in range(SLOTS)]
        workers = _workers(pipeline, predictor.opened, batch_size)
        truths = truths_of(samples)
        supply = Supply(pipeline, samples, batch_size, truths=truths, workers=workers)
        warm_up(supply, predictor, slots, subject.warmup)
        undo.pop_all()
    checksums = {**files.checksums, **folder.checksums}
    doubt = doubt_of(predictor.opened.framework, predictor.opened.device)
    notes = (*subject.notes, *files.notes, *folder.notes, *([doubt] if doubt else []))
    shared = (supply, predictor, slots, checksums, subject.warmup, notes, inline, watched)
    return Session(subject, *shared)


def _watching(place: Place, undo: contextlib.ExitStack) -> Collecting | None:
    """Open the collectors that are to see the opening of the model, if any are."""
    if place.occasion is None:
        return None
    watched = open_collecting(place.occasion)
    undo.callback(watched.close)
    return watched


def warm_up(supply: Supply, predictor: Predictor, slots: Sequence[Slot], queries: int) -> None:
    """Send queries through that leave nothing behind, each slot in turn.

    One over all of which the model raises is made up for by the next: bad samples at the front are
    no reason not to open. Raises PredictFailed after `_MOST_COLD` such queries.
    """
    nobody = Recorder(_NOBODY, lambda _: True)
    stages = Stages(supply, predictor.predict, nobody, Level.NONE, records_queries=False)
    index = raised = 0
    while index - raised < queries:
        first = index * supply.batch_size
        samples = [(first + each) % len(supply.samples) for each in range(supply.batch_size)]
        query, slot = Query(index, samples, 0), slots[index % len(slots)]
        index += 1
        stages.prepare(query, slot)
        if len(query.unfit) == len(samples):
            query.outputs = predictor.predict(slot.inputs)
        else:
            stages.predict(query)
        stages.finish(query)
        raised += query.outputs is None
        if raised >= _MOST_COLD:
            raise PredictFailed(query.errors[-1].removeprefix("predict: "))


def _open_request(
    subject: Subject, files: ModelFiles, batch_size: int, place: Place
) -> OpenRequest:
    is_built = bool(subject.model.model.builder)
    graph_path, graph = (Path(), b"") if is_built else files.graph()
    return OpenRequest(
        model=subject.model,
        graph_path=graph_path,
        graph=graph,
        batch_size=batch_size,
        device=subject.device,
        options=subject.options,
        weights_path=files.weights(),
        scratch=place.scratch,
        builders=place.allowed.builders,
        remote_hosts=place.allowed.remote_hosts,
        traces_first=place.traces_first,
    )


def _workers(pipeline: Pipeline, opened: Opened, batch_size: int) -> int:
    predicting = opened.threads if opened.device == "cpu" else 1
    return workers_for(steps_in(pipeline.before), batch_size, usable_cores(), predicting)


def _check_described(dataset: DatasetManifest, pipeline: Pipeline) -> None:
    """Refuse to guess what samples are like that steps turn into the model's tensors."""
    made = dataset.synthetic
    for port in pipeline.before:
        has_steps = port.steps or pipeline.code_before
        if made is not None and has_steps and not made.inputs.get(port.name, made).shape:
            reason = f"declares no shape, and the model has steps for input {port.name}"
            raise DatasetUnusable(dataset.name, reason)


def _check_samples(
    dataset: DatasetManifest, sample: Any, inputs: Sequence[TensorPlace], pipeline: Pipeline
) -> None:
    """Check that the first sample is such as the model's inputs take. Raises DatasetUnusable."""
    if pipeline.code_before:
        return  # what code takes is its own to say
    for port, place in zip(pipeline.before, inputs, strict=True):
        if isinstance(sample, dict) and port.name not in sample:
            held = ", ".join(sample)
            raise DatasetUnusable(dataset.name, f"holds {held}, but not input {port.name}")
        part = sample[port.name] if isinstance(sample, dict) else sample
        if not isinstance(part, np.ndarray):
            if not port.steps:
                reason = "holds files, but the model has no step for them"
                raise DatasetUnusable(dataset.name, reason)
        elif port.steps:
            if port.steps[0].name == "decode":
                raise DatasetUnusable(dataset.name, "holds tensors, but the model decodes files")
        elif part.shape != place.shape or part.dtype != place.element_type:
            found = f"{part.dtype}{list(part.shape)}"
            takes = f"{place.element_type}{list(place.shape)}"
            raise DatasetUnusable(dataset.name, f"holds {found}, the model takes {takes}")


_NOBODY = Attempt("none", "none", 0, "none")
_MOST_COLD = 8
"""Queries that may raise while a model is warmed up."""
