"""One opened model in a worker: files, samples, pipeline, predictor."""

import contextlib
import platform
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from mlscope.load.parameters import MAX_QUERIES
from mlscope.manifests.figures import figures_of
from schemas.level import Level
from schemas.plan import Subject
from schemas.run import Conditions
from services.agent.errors import MemoryExhausted
from services.agent.link.allowances import DEFAULT_ALLOWANCES, Allowances, ahead_limit_bytes
from services.agent.link.fetched_file import NO_FILES, FetchedFile
from services.agent.link.messages import IssueQuery
from services.agent.link.preparation_clock import PreparationClock
from services.agent.machine.hardware import accelerator_names, package_version, processor_name
from services.agent.machine.noise import resident_bytes
from services.agent.machine.quotas import available_memory_bytes
from services.agent.predictors import (
    MAX_BOUND,
    ArrayBinder,
    OpenRequest,
    Predictor,
    predictor_named,
)
from services.agent.predictors.decoding import OPTION as DECODE
from services.agent.predictors.options import usable_cores
from services.agent.predictors.verified import unverified_caveat
from services.agent.worker.answers.outputs import check_outputs
from services.agent.worker.device_copies import copy_conditions
from services.agent.worker.files.datasets import load_samples, truths_of
from services.agent.worker.files.model_files import AssetFolder, ModelFiles
from services.agent.worker.files.normalizing import Normalizations, with_normalize_moved
from services.agent.worker.files.samples import first_readable
from services.agent.worker.files.weights import with_weights_chosen
from services.agent.worker.inline.inline import InlineCode, check_code, open_inline
from services.agent.worker.open_collectors import CollectorContext, OpenCollectors, open_collectors
from services.agent.worker.preparation.finishing_child import can_finish_apart
from services.agent.worker.preparation.order import PreparationOrder
from services.agent.worker.preparation.predicting import Predicting
from services.agent.worker.preparation.session_pool import SessionPool
from services.agent.worker.preparation.shares import LEAST_SLOTS, MOST_IN_FLIGHT
from services.agent.worker.queries.device_decoding import DECODING_THREADS, decoded_on_device
from services.agent.worker.queries.fitting import require_fitting, require_shapes, with_ranges
from services.agent.worker.queries.inputs import Inputs, inputs_of, received_sample
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import pipeline_of, steps_in, steps_of
from services.agent.worker.queries.prepared import PreparedBatches, kept_output_bytes, no_batches
from services.agent.worker.queries.query import Slot
from services.agent.worker.queries.streaming import workers_for
from services.agent.worker.warming_up import bind_further, warm_up


@dataclass(frozen=True, slots=True)
class Session:
    """What the runs of one session share. `slots` are bound by the predictor as they are used."""

    subject: Subject
    supply: Supply
    predictor: Predictor
    slots: Sequence[Slot]
    checksums: Mapping[str, str]
    #: queries that warmed it up
    warmup_queries: int
    #: what a reader of its results must know
    notes: Sequence[str] = ()
    inline: InlineCode = field(default_factory=InlineCode)
    #: the collectors that observed its opening, for the run that measures it
    opening_collectors: OpenCollectors | None = None
    #: batches that its runs prepare ahead
    prepared: PreparedBatches = field(default_factory=no_batches)
    #: a random id of this opening of the model
    opened: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def deepest_level(self) -> Level:
        """The deepest level at which the predictor can be traced."""
        return self.predictor.opened.deepest_level

    def busy_since_ns(self) -> int:
        """Return when the current predict call began (CLOCK_MONOTONIC ns), 0 outside of any."""
        return self.supply.predict_clock.since_ns

    def conditions(self, seed: int | None, noise: Mapping[str, Any]) -> Conditions:
        """Return the conditions of a run with a `seed`, and the `noise` during it."""
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
            **copy_conditions(opened, self.predictor),
            prepare_threads=self.supply.workers,
            warmup_queries=self.warmup_queries,
            rss_bytes=resident_bytes(),
            checksums=dict(self.checksums),
            seed=seed,
            opened=self.opened,
            mlscope_version=package_version("mlscope"),
            python_version=platform.python_version(),
            prepared_by=", ".join(self.supply.pipeline.libraries()),
            noise=dict(noise),
        )

    def payload_of(self, received: IssueQuery) -> Sequence[Any] | None:
        """Return the samples that came with a query; None: the dataset's. Raises ValueError."""
        supply, count = self.supply, len(self.supply.samples)
        if len(received.samples) != supply.batch_size:
            raise ValueError(f"{len(received.samples)} samples; a query has {supply.batch_size}")
        if received.payload is None:
            if not all(0 <= sample < count for sample in received.samples):
                raise ValueError(f"samples are numbered 0 to {count - 1}")
            return None
        if supply.pipeline.code_before:
            return list(received.payload)
        arrays = self.slots[0].arrays
        return [received_sample(body, supply.pipeline.before, arrays) for body in received.payload]

    def close(self) -> None:
        """End what uses the model's arrays, then free the model; whatever one of them raises.

        Collectors no longer observe, and no process writes into a slot any more, when the predictor
        unlocks the slots' pages.
        """
        with contextlib.ExitStack() as last_first:
            last_first.callback(self.predictor.close)
            if self.supply.pool is not None:
                last_first.callback(self.supply.pool.close)
            last_first.callback(self.inline.close)
            if self.opening_collectors is not None:
                last_first.callback(self.opening_collectors.close)


@dataclass(frozen=True, slots=True)
class SessionEnvironment:
    """Where a session is opened, and under which conditions."""

    #: where it may write
    scratch: Path
    #: what the agent's owner allows the model
    allowances: Allowances = DEFAULT_ALLOWANCES
    #: whether to trace the layers of the model's first run
    traces_first: bool = False
    #: queries of which samples may be prepared while others are predicted; 0: of none; None: it is
    #: not known which runs there will be, and no processes are begun
    in_flight: int | None = None
    #: the context of collectors that observe the opening
    collectors: CollectorContext | None = None
    #: where it notes the samples that it prepares
    preparation_clock: PreparationClock = field(default_factory=PreparationClock)

    def open_request(
        self,
        subject: Subject,
        files: ModelFiles,
        batch_size: int,
        normalizations: Normalizations = (),
    ) -> OpenRequest:
        """Return what a predictor opens: a `subject` at a `batch_size`, with its checked `files`.

        It computes the `normalizations` of its inputs. Raises FileUnusable.
        """
        has_builder = bool(subject.model.model.builder)
        graph_path, graph = (Path(), b"") if has_builder else files.graph()
        return OpenRequest(
            model=subject.model,
            graph_path=graph_path,
            graph=graph,
            batch_size=batch_size,
            device=subject.device,
            options=subject.options,
            weights_path=files.weights(),
            scratch=self.scratch,
            builders=self.allowances.builders,
            remote_hosts=self.allowances.remote_hosts,
            traces_first=self.traces_first,
            normalizations=normalizations,
        )


def open_session(
    subject: Subject,
    batch_size: int,
    manifests_folder: Path,
    scratch: Path,
    fetched: Mapping[str, FetchedFile] = NO_FILES,
    allowances: Allowances = DEFAULT_ALLOWANCES,
) -> Session:
    """Open a `subject` at a `batch_size` and warm it up, with a `scratch` folder to write to.

    `manifests_folder`, `fetched` and `allowances` as in `open_session_in`. Raises AgentError.
    """
    environment = SessionEnvironment(scratch, allowances)
    return open_session_in(environment, subject, batch_size, manifests_folder, fetched)


def open_session_in(
    environment: SessionEnvironment,
    subject: Subject,
    batch_size: int,
    manifests_folder: Path,
    fetched: Mapping[str, FetchedFile],
) -> Session:
    """Open a `subject` at a `batch_size` in an `environment` and warm it up. Raises AgentError.

    Its files are in `manifests_folder`; those from elsewhere are `fetched`, by address.
    """
    subject, normalizations = with_normalize_moved(with_weights_chosen(subject))
    check_code(subject.model, environment.allowances.inline)
    scratch = environment.scratch
    files = ModelFiles(AssetFolder(manifests_folder, "models"), subject.model, fetched, scratch)
    folder = AssetFolder(manifests_folder, "datasets", fetched, scratch)
    try:
        request = environment.open_request(subject, files, batch_size, normalizations)
        return _open(subject, request, files, folder, environment)
    except MemoryError as error:
        # Another attempt would end the same way: a final failure, and not the worker's crash.
        raise MemoryExhausted(batch_size, str(error) or "no memory") from error


def _open(
    subject: Subject,
    request: OpenRequest,
    files: ModelFiles,
    folder: AssetFolder,
    environment: SessionEnvironment,
) -> Session:
    model, dataset, batch_size = subject.model, subject.dataset, request.batch_size
    pipeline = pipeline_of(steps_of(model), files.labels)
    samples = () if dataset.synthetic is not None else load_samples(dataset, folder)
    # A framework's profilers are there once it is imported.
    open_model = predictor_named(subject.framework)
    with contextlib.ExitStack() as undo:
        pool = _begun_pool(subject, folder, environment)
        if pool is not None:
            undo.callback(pool.close)
        predictor, collectors = _opened(partial(open_model, request), environment.collectors, undo)
        opened = predictor.opened
        inputs = inputs_of(model, opened.inputs, dataset, batch_size)
        names = [tensor.name for tensor in inputs.supplied]
        limits = environment.allowances.inline
        inline = open_inline(subject, batch_size, limits, names, files.further)
        undo.callback(inline.close)
        pipeline = replace(
            inputs.named(pipeline), code_before=inline.before, code_after=inline.after
        )
        check_outputs(model, opened.outputs, pipeline)
        if dataset.synthetic is not None:
            require_shapes(dataset, pipeline)
            samples = load_samples(with_ranges(dataset, pipeline), folder, inputs.supplied)
        first_sample = first_readable(dataset.name, samples)
        require_fitting(dataset, first_sample, inputs.supplied, pipeline)
        pipeline = decoded_on_device(pipeline, predictor, first_sample, files.labels)
        place = Predicting.of(opened)
        steps = steps_in(pipeline.before)
        slots = (
            [inputs.slot() for _ in range(LEAST_SLOTS)]
            if pool is None
            else pool.slots(inputs, batch_size, steps, samples, place)
        )
        workers = workers_for(steps, batch_size, usable_cores(), max(place.threads, 1))
        has_work = steps > 0 and dataset.synthetic is None and not inline.before
        if pipeline.device_decoding is not None:
            workers, has_work = DECODING_THREADS, False
        supply = Supply(
            pipeline,
            samples,
            batch_size,
            preparation_clock=environment.preparation_clock,
            truths=truths_of(samples),
            workers=workers,
            pool=pool,
            pool_refusal=_NOT_EXPECTED if environment.in_flight == 0 and has_work else "",
            predicting_cores=place.cores,
        )
        warm = warm_up(supply, predictor, slots, subject.warmup)
        if pool is not None:
            finish_ns = warm.finish_ns if can_finish_apart(pipeline) else 0
            pool.plan(warm.prepare_ns, warm.predict_ns, finish_ns)
            bind_further(predictor, slots, subject.warmup)
        prepared = _room_for_batches(inputs, predictor, warm.output_bytes, environment.allowances)
        undo.pop_all()
    caveat = unverified_caveat(opened.framework, opened.device)
    return Session(
        subject,
        supply,
        predictor,
        slots,
        checksums={**files.checksums, **folder.checksums},
        warmup_queries=subject.warmup,
        notes=(
            *subject.notes,
            *files.notes,
            *folder.notes,
            *pipeline.notes(),
            *opened.notes,
            *([caveat] if caveat else []),
        ),
        inline=inline,
        opening_collectors=collectors,
        prepared=prepared,
    )


def _opened(
    open_model: Callable[[], Predictor],
    context: CollectorContext | None,
    undo: contextlib.ExitStack,
) -> tuple[Predictor, OpenCollectors | None]:
    """Open a model; return the predictor, and the collectors of a `context` that observed that.

    Where the session fails after all, `undo` closes both.
    """
    observing: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
    collectors: OpenCollectors | None = None
    if context is not None:
        collectors = open_collectors(context)
        undo.callback(collectors.close)
        observing = collectors.observe_opening()
    with observing:
        predictor = open_model()
    undo.callback(predictor.close)
    return predictor, collectors


def _begun_pool(
    subject: Subject, folder: AssetFolder, environment: SessionEnvironment
) -> SessionPool | None:
    """Begin the processes that prepare samples; None where they would gain nothing.

    Inline code has a process of its own, tensors without steps are only copied, and what a device
    decodes needs no cores.
    """
    plan, limits = steps_of(subject.model), environment.allowances.preparation
    has_work = steps_in(plan.before) and not plan.code_before and subject.dataset.synthetic is None
    if subject.options.get(DECODE) == "device" or not (
        environment.in_flight and has_work and limits.processes
    ):
        return None
    scratch = environment.scratch / "preparation"
    manifests, fetched = folder.manifests_folder, folder.fetched
    order = PreparationOrder(subject.model, subject.dataset, manifests, fetched, scratch)
    return SessionPool(order, limits, usable_cores(), environment.in_flight)


def _room_for_batches(
    inputs: Inputs, predictor: Predictor, output_bytes: int | None, allowances: Allowances
) -> PreparedBatches:
    """Return the room for prepared batches of a model's `inputs`, within the `allowances`.

    A `predictor` that binds arrays keeps `output_bytes` of outputs with each batch; None: unknown.
    """
    is_binding = isinstance(predictor, ArrayBinder)
    batch_bytes = inputs.batch_bytes + (output_bytes or 0)
    # The slots of streamed runs are bound, too.
    limit_batches = MAX_BOUND - MOST_IN_FLIGHT if is_binding else MAX_QUERIES
    limit_bytes = ahead_limit_bytes(allowances.ahead_bytes, available_memory_bytes())
    kept_bytes = partial(kept_output_bytes, predictor) if output_bytes is None else None
    return PreparedBatches(inputs.slot, batch_bytes, limit_bytes, limit_batches, kept_bytes)


_NOT_EXPECTED = "no processes were begun, because none of the runs was expected to stream"
