"""Opens a session: reads its files, opens and warms up its model."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from schemas.plan import Subject
from services.agent.errors import MemoryExhausted
from services.agent.link.allowances import DEFAULT_ALLOWANCES, Allowances
from services.agent.link.fetched_file import NO_FILES, FetchedFile
from services.agent.link.preparation_clock import PreparationClock
from services.agent.predictors import Opened, OpenRequest, Predictor, predictor_named
from services.agent.predictors.decoding import OPTION as DECODE
from services.agent.predictors.options import usable_cores
from services.agent.predictors.verified import unverified_caveat
from services.agent.worker.answers.outputs import check_outputs
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
from services.agent.worker.preparation.shares import LEAST_SLOTS
from services.agent.worker.queries.device_decoding import DECODING_THREADS, decoded_on_device
from services.agent.worker.queries.fitting import require_fitting, require_shapes, with_ranges
from services.agent.worker.queries.inputs import Inputs, inputs_of
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.pipeline import Pipeline, pipeline_of, steps_in, steps_of
from services.agent.worker.queries.prepared import room_for_batches
from services.agent.worker.queries.query import Slot
from services.agent.worker.queries.streaming import workers_for
from services.agent.worker.session import Session
from services.agent.worker.warming_up import bind_further, warm_up

_NOT_EXPECTED = "no processes were begun, because none of the runs was expected to stream"


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


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The way of a dataset's samples into an opened model, and of its outputs back."""

    inputs: Inputs
    pipeline: Pipeline
    samples: Sequence[Any]
    inline: InlineCode


@dataclass(frozen=True, slots=True)
class _Opening:
    """The opening of one session: what is asked for, its files, and where it is opened."""

    subject: Subject
    request: OpenRequest
    files: ModelFiles
    folder: AssetFolder
    environment: SessionEnvironment

    def open(self) -> Session:
        """Open the session and warm it up; leave nothing behind if that fails. Raises AgentError.

        Steps and samples are read before the model is opened, which may take minutes.
        """
        subject, dataset = self.subject, self.subject.dataset
        pipeline = pipeline_of(steps_of(subject.model), self.files.labels)
        samples = () if dataset.synthetic is not None else load_samples(dataset, self.folder)
        with contextlib.ExitStack() as undo:
            # A framework's profilers are there once it is imported.
            open_model = partial(predictor_named(subject.framework), self.request)
            pool = self._begun_pool()
            if pool is not None:
                undo.callback(pool.close)
            predictor, collectors = _opened(open_model, self.environment.collectors, undo)
            fitted = self._fitted(predictor, pipeline, samples, undo)
            supply, slots = self._supply(fitted, predictor.opened, pool)
            warm = warm_up(supply, predictor, slots, subject.warmup)
            if pool is not None:
                finish_ns = warm.finish_ns if can_finish_apart(supply.pipeline) else 0
                pool.plan(warm.prepare_ns, warm.predict_ns, finish_ns)
                bind_further(predictor, slots, subject.warmup)
            allowances = self.environment.allowances
            prepared = room_for_batches(fitted.inputs, predictor, warm.output_bytes, allowances)
            undo.pop_all()
        return Session(
            subject,
            supply,
            predictor,
            slots,
            checksums={**self.files.checksums, **self.folder.checksums},
            warmup_queries=subject.warmup,
            notes=self._notes(supply.pipeline, predictor.opened),
            inline=fitted.inline,
            opening_collectors=collectors,
            prepared=prepared,
        )

    def _begun_pool(self) -> SessionPool | None:
        """Begin the processes that prepare samples; None where they would gain nothing.

        Inline code has a process of its own, tensors without steps are only copied, and what a
        device decodes needs no cores.
        """
        subject, environment = self.subject, self.environment
        plan, limits = steps_of(subject.model), environment.allowances.preparation
        is_plain = not plan.code_before and subject.dataset.synthetic is None
        has_work = steps_in(plan.before) and is_plain and subject.options.get(DECODE) != "device"
        if not (environment.in_flight and has_work and limits.processes):
            return None
        scratch = environment.scratch / "preparation"
        manifests, fetched = self.folder.manifests_folder, self.folder.fetched
        order = PreparationOrder(subject.model, subject.dataset, manifests, fetched, scratch)
        return SessionPool(order, limits, usable_cores(), environment.in_flight)

    def _fitted(
        self,
        predictor: Predictor,
        pipeline: Pipeline,
        samples: Sequence[Any],
        undo: contextlib.ExitStack,
    ) -> _Fitted:
        """Fit a `pipeline` and `samples` to the opened model; synthetic samples are made for it.

        The pipeline gets the model's inline code, which `undo` closes where the session fails.
        """
        model, dataset, opened = self.subject.model, self.subject.dataset, predictor.opened
        batch_size, files = self.request.batch_size, self.files
        inputs = inputs_of(model, opened.inputs, dataset, batch_size)
        names = [tensor.name for tensor in inputs.supplied]
        limits = self.environment.allowances.inline
        inline = open_inline(self.subject, batch_size, limits, names, files.further)
        undo.callback(inline.close)
        pipeline = replace(
            inputs.named(pipeline), code_before=inline.before, code_after=inline.after
        )
        check_outputs(model, opened.outputs, pipeline)
        if dataset.synthetic is not None:
            require_shapes(dataset, pipeline)
            samples = load_samples(with_ranges(dataset, pipeline), self.folder, inputs.supplied)
        first_sample = first_readable(dataset.name, samples)
        require_fitting(dataset, first_sample, inputs.supplied, pipeline)
        pipeline = decoded_on_device(pipeline, predictor, first_sample, files.labels)
        return _Fitted(inputs, pipeline, samples, inline)

    def _supply(
        self, fitted: _Fitted, opened: Opened, pool: SessionPool | None
    ) -> tuple[Supply, Sequence[Slot]]:
        """Return what queries are served from, and the slots for their batches.

        The slots are those of the `pool`, if there is one. By what is said of the `opened` model,
        threads that prepare samples leave its cores alone.
        """
        pipeline, samples, batch_size = fitted.pipeline, fitted.samples, self.request.batch_size
        place, steps = Predicting.of(opened), steps_in(pipeline.before)
        if pool is None:
            slots = [fitted.inputs.slot() for _ in range(LEAST_SLOTS)]
        else:
            slots = pool.slots(fitted.inputs, batch_size, steps, samples, place)
        is_synthetic = self.subject.dataset.synthetic is not None
        has_work = steps > 0 and not is_synthetic and not pipeline.code_before
        workers = workers_for(steps, batch_size, usable_cores(), max(place.threads, 1))
        if pipeline.device_decoding is not None:
            workers, has_work = DECODING_THREADS, False
        supply = Supply(
            pipeline,
            samples,
            batch_size,
            preparation_clock=self.environment.preparation_clock,
            truths=truths_of(samples),
            workers=workers,
            pool=pool,
            pool_refusal=_NOT_EXPECTED if self.environment.in_flight == 0 and has_work else "",
            predicting_cores=place.cores,
        )
        return supply, slots

    def _notes(self, pipeline: Pipeline, opened: Opened) -> Sequence[str]:
        """Return what a reader of the session's results must know."""
        caveat = unverified_caveat(opened.framework, opened.device)
        files, folder = self.files, self.folder
        notes = (*self.subject.notes, *files.notes, *folder.notes, *pipeline.notes(), *opened.notes)
        return (*notes, caveat) if caveat else notes


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
        return _Opening(subject, request, files, folder, environment).open()
    except MemoryError as error:
        # Another attempt would end the same way: a final failure, and not the worker's crash.
        raise MemoryExhausted(batch_size, str(error) or "no memory") from error


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
