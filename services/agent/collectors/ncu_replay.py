"""One call of a session, for `ncu` to count: `python -m …collectors.ncu_replay ORDER`.

Opened and warmed up as in a worker; counting is on for one call alone. Of PyTorch every module's
forward is an NVTX range named as the module, so that each kernel carries its layer; a compiled
model has none: wrapping its modules would compile it again in the counted call.
"""

import contextlib
import ctypes
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from services.agent.predictors import Opened, Predictor
from services.agent.reopening import Reopening


def main() -> int:
    """Replay the order in the file that is named."""
    with tempfile.TemporaryDirectory(prefix="mlscope-ncu-") as folder:
        session = Reopening.read(Path(sys.argv[1]), Path(folder)).open()
        inputs = session.slots[0].inputs
        with ranges(session.predictor), counted():
            session.predictor.predict(inputs)
        session.close()
    return 0


@contextlib.contextmanager
def counted() -> Iterator[None]:
    """Have the profiler count what happens inside (cuProfilerStart, cuProfilerStop)."""
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
    """Make every module's forward an NVTX range; of other frameworks and compiled ones nothing."""
    module = getattr(predictor, "module", None)
    torch = sys.modules.get("torch")
    is_eager = not is_compiled(predictor.opened)
    if torch is None or not is_eager or not isinstance(module, torch.nn.Module):
        yield
        return
    wrapped = [
        each
        for name, each in module.named_modules()
        if _wrap(each, name or type(each).__name__, torch.cuda.nvtx)
    ]
    try:
        yield
    finally:
        for each in wrapped:
            each.__dict__.pop("forward", None)


def is_compiled(opened: Opened) -> bool:
    """Whether a model's modules are no more what runs (`torch.compile`)."""
    return str(opened.options.get("compile", "none")) != "none"


def _wrap(module: Any, name: str, nvtx: Any) -> bool:
    """Push a range around a module's forward; False of one whose forward can't be replaced."""
    forward = module.forward

    def ranged(*args: Any, **kwargs: Any) -> Any:
        nvtx.range_push(name)
        try:
            return forward(*args, **kwargs)
        finally:
            nvtx.range_pop()

    try:
        module.__dict__["forward"] = ranged
    except (AttributeError, TypeError):
        return False
    return True


if __name__ == "__main__":
    sys.exit(main())
