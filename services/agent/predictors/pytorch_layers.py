"""Layers of an eager PyTorch model: the forwards of its leaf modules, wrapped for one block.

A wrapper costs about half a microsecond a layer and lies on the instances only while a capture is
open. What runs between two layers without a module of its own (`x + y`, `flatten`) is a row too:
the time between the two, named after its parent and what one uncounted call showed there.
"""

import threading
from collections.abc import Callable, Sequence
from typing import Any

from mlscope.tracing.clock import now_ns
from services.agent.predictors import Layer, Tensors
from services.agent.predictors.pytorch_plan import ROOT, LayerPlan, Span
from services.agent.predictors.pytorch_probe import wrap

MOST_SPANS = 2_000_000
"""Of one block: some 200 bytes each wait in memory until it is over."""

_MOST_NAMED = 5


class EagerCapture:
    """One block of predict calls with the model's modules timed."""

    def __init__(
        self,
        plan: LayerPlan,
        predict: Callable[[Tensors], Tensors],
        warmed_with: Sequence[Tensors],
        *,
        on_gpu: bool = False,
    ) -> None:
        """Wrap the modules and predict each batch once, uncounted. Raises PredictFailed."""
        self._plan = plan
        self._predict = predict
        self._on_gpu = on_gpu
        self._spans: list[Span] = []
        self._ends: list[int] = []
        self._is_full = False
        #: numbers of the modules that ran, and calls that went another way; when closed
        self._ran: set[int] = set()
        self._strays = 0
        append = self._spans.append
        self._undo = [
            wrap(module, timed(number, module.forward, append))
            for number, module in enumerate(plan.modules)
        ]
        if plan.times_root:
            self._undo.append(wrap(plan.model, timed(ROOT, plan.model.forward, append)))
        try:
            for inputs in warmed_with:
                predict(inputs)
        except BaseException:
            self._unwrap()
            raise
        self._spans.clear()

    @property
    def notes(self) -> Sequence[str]:
        """What a reader of these layers should know; whole when it is closed."""
        return tuple(self._notes())

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        before = len(self._spans)
        try:
            outputs = self._predict(inputs)
        except BaseException:
            del self._spans[before:]
            raise
        self._ends.append(len(self._spans))
        if self._ends[-1] > MOST_SPANS and self._undo:
            self._is_full = True
            self._unwrap()
        return outputs

    def close(self) -> list[list[Layer]]:
        """Take the wrappers off and return the layers of each call."""
        self._unwrap()
        threads = {each.ident: each.native_id for each in threading.enumerate()}
        native = {ident: number for ident, number in threads.items() if ident and number}
        self._ran = {span[0] for span in self._spans}
        calls, begin = [], 0
        for end in self._ends:
            layers, is_usual = self._plan.layers_of(self._spans[begin:end], native)
            calls.append(layers)
            self._strays += end > begin and not is_usual
            begin = end
        return calls

    def _unwrap(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()

    def _notes(self) -> list[str]:
        notes = []
        if self._plan.between:
            notes.append(
                "operators without a module are timed as what lies between two layers, Python's "
                "part of it included"
            )
        if self._plan.expected and self._strays:
            notes.append(
                f"{_share(self._strays, len(self._ends))} went another way than the one before "
                "them that is not counted, or through several threads: what ran between their "
                "layers is not shown"
            )
        modules = enumerate(self._plan.modules) if self._plan.expected and self._ends else ()
        idle = [self._plan.name_of(each) for number, each in modules if number not in self._ran]
        if idle:
            more = f" and {len(idle) - _MOST_NAMED} more" if len(idle) > _MOST_NAMED else ""
            notes.append(
                f"modules that ran in no call of a block: {', '.join(idle[:_MOST_NAMED])}{more}"
            )
        if self._on_gpu:
            notes.append(
                "on a GPU a layer's time is that of its launches; its kernels' is at level system"
            )
        if self._is_full:
            notes.append(
                f"a block's layers end after {MOST_SPANS} spans; its later calls have none"
            )
        return notes


def _share(some: int, calls: int) -> str:
    """Return how many calls, alike for most blocks: each of their notes is another."""
    if some == calls:
        return "all calls of a block"
    return f"{'half or more' if 2 * some >= calls else 'fewer than half'} of the calls of a block"


def timed(
    number: int, forward: Callable[..., Any], append: Callable[[Span], None]
) -> Callable[..., Any]:
    """Return a module's forward that appends (number, begin, end, thread) of each call."""
    now, ident = now_ns, threading.get_ident

    def timed_forward(*args: Any, **kwargs: Any) -> Any:
        began = now()
        answer = forward(*args, **kwargs)
        append((number, began, now(), ident()))
        return answer

    return timed_forward
