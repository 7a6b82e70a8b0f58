"""One opened model in a worker: samples, pipeline, predictor, and the conditions of its runs."""

import contextlib
import platform
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlscope.manifests.figures import figures_of
from schemas.level import Level
from schemas.plan import Subject
from schemas.run import Conditions
from services.agent.link.messages import IssueQuery
from services.agent.machine.hardware import accelerator_names, package_version, processor_name
from services.agent.machine.noise import resident_bytes
from services.agent.predictors import Predictor
from services.agent.worker.device_copies import copy_conditions
from services.agent.worker.inline.inline import InlineCode
from services.agent.worker.open_collectors import OpenCollectors
from services.agent.worker.queries.inputs import received_sample
from services.agent.worker.queries.operator_runner import Supply
from services.agent.worker.queries.prepared import PreparedBatches, no_batches
from services.agent.worker.queries.query import Slot


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
