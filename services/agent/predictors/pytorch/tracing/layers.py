"""Layers of an eager PyTorch model: the forwards of its leaf modules, wrapped for one block.

A wrapper takes about half a microsecond for each layer and is on the instances only while a capture
is open. Operators between two layers that have no module of their own (`x + y`, `flatten`) are a
row too: the time between the two, named after the calling module and the operator that one
uncounted call showed there.
"""

import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from mlscope.tracing.clock import now_ns
from services.agent.predictors import LAUNCH_NOTE, Layer, Tensors
from services.agent.predictors.pytorch.tracing.plan import ROOT, LayerPlan, Span
from services.agent.predictors.pytorch.tracing.probe import wrap

MAX_SPANS = 2_000_000
"""Spans of one block: each takes about 200 bytes of memory until the block ends."""

_MAX_MODULES_LISTED = 5


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
        """Wrap the modules of `plan` and predict each batch of `warmed_with` once, uncounted.

        `predict` runs the model, `on_gpu` says where. Raises PredictFailed.
        """
        self._plan = plan
        self._predict = predict
        self._on_gpu = on_gpu
        self._spans: list[Span] = []
        self._ends: list[int] = []
        self._is_full = False
        #: numbers of the modules that ran, known when closed
        self._executed: set[int] = set()
        #: how many calls did not run as expected, known when closed
        self._unexpected_calls = 0
        append = self._spans.append
        self._undo = [
            wrap(module, timed(number, module.forward, append))
            for number, module in enumerate(plan.modules)
        ]
        if plan.times_root:
            self._undo.append(wrap(plan.model, timed(ROOT, plan.model.forward, append)))
        with ExitStack() as undo:
            undo.callback(self._unwrap)
            for inputs in warmed_with:
                predict(inputs)
            undo.pop_all()
        self._spans.clear()

    @property
    def notes(self) -> Sequence[str]:
        """Caveats of these layers; complete once the capture is closed."""
        notes = []
        if self._plan.between:
            notes.append(
                "operators without a module are timed as the gap between two layers, which "
                "includes time spent in Python"
            )
        if self._plan.expected and self._unexpected_calls:
            calls, unexpected = len(self._ends), self._unexpected_calls
            # Worded alike for most blocks, as each different note is listed.
            share = "half or more" if 2 * unexpected >= calls else "fewer than half"
            subject = "all calls" if unexpected == calls else f"{share} of the calls"
            notes.append(
                f"{subject} of a block ran other modules than the uncounted call before them, or "
                "several threads: operators between their layers are not shown"
            )
        modules = enumerate(self._plan.modules) if self._plan.expected and self._ends else ()
        idle = [
            self._plan.name_of(module) for number, module in modules if number not in self._executed
        ]
        if idle:
            listed, unlisted = idle[:_MAX_MODULES_LISTED], idle[_MAX_MODULES_LISTED:]
            suffix = f" and {len(unlisted)} more" if unlisted else ""
            notes.append(f"modules that ran in no call of a block: {', '.join(listed)}{suffix}")
        if self._on_gpu:
            notes.append(LAUNCH_NOTE)
        if self._is_full:
            notes.append(f"a block's layers end after {MAX_SPANS} spans; its later calls have none")
        return tuple(notes)

    def predict(self, inputs: Tensors) -> Tensors:
        """Return the outputs for one batch. Raises PredictFailed."""
        before = len(self._spans)
        try:
            outputs = self._predict(inputs)
        except BaseException:
            del self._spans[before:]
            raise
        self._ends.append(len(self._spans))
        if self._ends[-1] > MAX_SPANS and self._undo:
            self._is_full = True
            self._unwrap()
        return outputs

    def close(self) -> list[list[Layer]]:
        """Unwrap the modules and return the layers of each call."""
        self._unwrap()
        native_ids = {
            thread.ident: thread.native_id
            for thread in threading.enumerate()
            if thread.ident and thread.native_id
        }
        self._executed = {span[0] for span in self._spans}
        calls, begin = [], 0
        for end in self._ends:
            layers, is_expected = self._plan.layers_of(self._spans[begin:end], native_ids)
            calls.append(layers)
            self._unexpected_calls += end > begin and not is_expected
            begin = end
        return calls

    def _unwrap(self) -> None:
        for undo in reversed(self._undo):
            undo()
        self._undo.clear()


def timed(
    number: int, forward: Callable[..., Any], append: Callable[[Span], None]
) -> Callable[..., Any]:
    """Return a module's `forward` that calls `append` with the `Span` of each of its calls.

    `number` is that of the module in its plan.
    """
    now, ident = now_ns, threading.get_ident

    def timed_forward(*args: Any, **kwargs: Any) -> Any:
        began = now()
        answer = forward(*args, **kwargs)
        append((number, began, now(), ident()))
        return answer

    return timed_forward
