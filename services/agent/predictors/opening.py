"""Measure what opening a model costs, the same way for every framework: load, first run, memory."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import AgentError, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.machine.noise import resident_bytes
from services.agent.predictors import (
    FirstRun,
    LayerCapture,
    LayerSource,
    Opened,
    OpenRequest,
    Tensors,
    WeightMove,
)
from services.agent.predictors.shapes import zeros


class Openable(Protocol):
    """A predictor that is loaded and has not run yet."""

    opened: Opened

    def predict(self, inputs: Tensors, /) -> Tensors:
        """Return the outputs for one batch."""
        ...

    def close(self) -> None:
        """Free the model."""
        ...


class Opening:
    """Measures the opening of one model.

    Create it before the model is loaded, then call `mark_loaded`, then `run_first`; or
    `record_costs` where the model cannot run yet.
    """

    def __init__(self, request: OpenRequest) -> None:
        self._request = request
        self._resident_bytes = resident_bytes()
        self._load_ns = 0
        self._weights: tuple[WeightMove, ...] = ()
        self._began_ns = now_ns()

    def mark_loaded(self, weights: Iterable[WeightMove] = ()) -> None:
        """End the time of loading; `weights` are the loads and moves of the model's weights."""
        self._load_ns = now_ns() - self._began_ns
        self._weights = tuple(weights)

    def run_first(self, predictor: Openable, filled: Tensors | None = None) -> Tensors:
        """Predict zeros (or `filled`) once, and add the costs to `predictor.opened`.

        Returns the outputs. A predictor that fails is closed. Raises OpenFailed, and
        BatchSizeUnsupported where an input has a first dimension of 1.
        """
        request = self._request
        if filled is None:
            filled = zeros(predictor.opened.inputs, request.model.inputs, request.batch_size)
        capture = self._begin_capture(predictor)
        started = now_ns()
        try:
            outputs = (capture or predictor).predict(filled)
        except PredictFailed as error:
            predictor.close()
            for place in predictor.opened.inputs:
                if request.batch_size > 1 and place.shape[:1] == (1,):
                    raise BatchSizeUnsupported(
                        request.batch_size, place.name, list(place.shape)
                    ) from error
            raise OpenFailed(request.model.name, str(error)) from error
        ended = now_ns()
        layers = tuple(layer for call in capture.close() for layer in call) if capture else ()
        self.record_costs(predictor, ended - started)
        loaded_ns = self._began_ns + self._load_ns
        first = FirstRun(self._began_ns, loaded_ns, started, ended, layers, self._weights)
        predictor.opened = replace(predictor.opened, first=first)
        return outputs

    def _begin_capture(self, predictor: Openable) -> LayerCapture | None:
        """Return a capture of the first run's layers; None unless requested and supported."""
        if not self._request.traces_first or predictor.opened.deepest_level < Level.FRAMEWORK:
            return None
        if not isinstance(predictor, LayerSource):
            return None
        try:
            return predictor.layers(())
        except (AgentError, RuntimeError, ValueError):
            return None  # a first run without layers is better than none

    def record_costs(self, predictor: Openable, first_run_ns: int = 0) -> None:
        """Add the costs of opening to `predictor.opened`; `first_run_ns` is 0 without a first run.

        Memory is the growth of the process's resident set. It is 0 for a model that fits into
        memory that the process had already.
        """
        grown_bytes = resident_bytes() - self._resident_bytes
        predictor.opened = replace(
            predictor.opened,
            load_ns=self._load_ns,
            first_run_ns=first_run_ns,
            memory_bytes=max(0, grown_bytes),
        )

    # Names of release 0.1, for predictors of other packages. Release 0.3 drops them.
    loaded, ran = mark_loaded, record_costs
