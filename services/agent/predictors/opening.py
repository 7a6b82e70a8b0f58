"""What opening a model costs, taken one way for every framework: load, first run and memory."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Protocol

from mlscope.tracing.clock import now_ns
from schemas.level import Level
from services.agent.errors import AgentError, BatchSizeUnsupported, OpenFailed, PredictFailed
from services.agent.noise import resident_bytes
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
    """A predictor that was loaded and has not run yet."""

    opened: Opened

    def predict(self, inputs: Tensors, /) -> Tensors:
        """Return the outputs for one batch."""
        ...

    def close(self) -> None:
        """Free what it holds."""
        ...


class Opening:
    """The opening of one model: made when it begins, then `loaded`, then `run_first`."""

    def __init__(self, request: OpenRequest) -> None:
        self._request = request
        self._resident_bytes = resident_bytes()
        self._load_ns = 0
        self._weights: tuple[WeightMove, ...] = ()
        self._began_ns = now_ns()

    def loaded(self, weights: Iterable[WeightMove] = ()) -> None:
        """Say that the model is loaded, and what its weights took; now comes its first run."""
        self._load_ns = now_ns() - self._began_ns
        self._weights = tuple(weights)

    def run_first(self, predictor: Openable, filled: Tensors | None = None) -> Tensors:
        """Predict zeros (or `filled`) once; `predictor.opened` then says what it all cost.

        A predictor that fails is closed. Raises OpenFailed, and BatchSizeUnsupported where an
        input has a first dimension of 1.
        """
        request = self._request
        if filled is None:
            filled = zeros(predictor.opened.inputs, request.model.inputs, request.batch_size)
        capture = self._capture(predictor)
        started = now_ns()
        try:
            outputs = (capture or predictor).predict(filled)
        except PredictFailed as error:
            predictor.close()
            raise self._refusal(predictor.opened, error) from error
        ended = now_ns()
        layers = tuple(layer for call in capture.close() for layer in call) if capture else ()
        self.ran(predictor, ended - started)
        loaded_ns = self._began_ns + self._load_ns
        first = FirstRun(self._began_ns, loaded_ns, started, ended, layers, self._weights)
        predictor.opened = replace(predictor.opened, first=first)
        return outputs

    def _capture(self, predictor: Openable) -> LayerCapture | None:
        """Return a capture of the first run's layers, where they are wanted and can be had."""
        if not self._request.traces_first or predictor.opened.deepest_level < Level.FRAMEWORK:
            return None
        if not isinstance(predictor, LayerSource):
            return None
        try:
            return predictor.layers(())
        except (AgentError, RuntimeError, ValueError):
            return None  # a first run without layers is better than none

    def ran(self, predictor: Openable, first_run_ns: int = 0) -> None:
        """Write into `predictor.opened` what opening cost; 0 ns where it could not run yet.

        Memory is what the process's resident set grew by, which is none where a model fits into
        what was free in it.
        """
        grown = resident_bytes() - self._resident_bytes
        predictor.opened = replace(
            predictor.opened,
            load_ns=self._load_ns,
            first_run_ns=first_run_ns,
            memory_bytes=max(0, grown),
        )

    def _refusal(self, opened: Opened, error: PredictFailed) -> AgentError:
        size = self._request.batch_size
        for place in opened.inputs:
            if size > 1 and place.shape[:1] == (1,):
                return BatchSizeUnsupported(size, place.name, list(place.shape))
        return OpenFailed(self._request.model.name, str(error))
