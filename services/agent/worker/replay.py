"""One call of a session, for `ncu` to count: `python -m …worker.replay ORDER`.

The session is opened and warmed up as in a worker; counting is on for one call only. With PyTorch
every module's forward is an NVTX range with the module's name, so that each kernel has its layer. A
compiled model has no ranges: wrapping its modules would compile it again in the counted call.
"""

import contextlib
import ctypes
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from services.agent.collectors.ncu.collector import is_compiled
from services.agent.predictors import Predictor
from services.agent.worker.session_opener import SessionOpener


def main() -> int:
    """Replay the session that the file of the first argument describes."""
    with tempfile.TemporaryDirectory(prefix="mlscope-ncu-") as folder:
        session = SessionOpener.read(Path(sys.argv[1]), Path(folder)).open(streams=False)
        inputs = session.slots[0].inputs
        with ranges(session.predictor), counted():
            session.predictor.predict(inputs)
        session.close()
    return 0


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Switch the profiler on inside the block (cuProfilerStart, cuProfilerStop)."""
    cuda = ctypes.CDLL("libcuda.so.1")
    cuda.cuCtxSynchronize()
    cuda.cuProfilerStart()
    try:
        yield
        cuda.cuCtxSynchronize()
    finally:
        cuda.cuProfilerStop()


@contextlib.contextmanager
def ranges(predictor: Predictor) -> Iterator[None]:
    """Make every module's forward an NVTX range; not in other frameworks and compiled models."""
    module = getattr(predictor, "module", None)
    torch = sys.modules.get("torch")
    is_eager = not is_compiled(predictor.opened)
    if torch is None or not is_eager or not isinstance(module, torch.nn.Module):
        yield
        return
    replaced = []
    for name, submodule in module.named_modules():
        own_forward = vars(submodule).get("forward")
        ranged = _ranged_forward(
            submodule.forward, name or type(submodule).__name__, torch.cuda.nvtx
        )
        with contextlib.suppress(AttributeError, TypeError):  # a forward that can't be replaced
            submodule.forward = ranged
            replaced.append((submodule, own_forward))
    try:
        yield
    finally:
        for submodule, own_forward in replaced:
            if own_forward is None:
                del submodule.forward
            else:
                submodule.forward = own_forward


def _ranged_forward(forward: Callable[..., Any], name: str, nvtx: Any) -> Callable[..., Any]:
    """Return a module's `forward` inside a range with a `name`, by PyTorch's module `nvtx`."""

    def ranged(*args: Any, **kwargs: Any) -> Any:
        nvtx.range_push(name)
        try:
            return forward(*args, **kwargs)
        finally:
            nvtx.range_pop()

    return ranged


if __name__ == "__main__":
    sys.exit(main())
