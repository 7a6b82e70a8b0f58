"""Which modules the kernels of a compiled PyTorch model do the work of, as Inductor tells it.

Inductor writes what became of each node of the traced graph to PyTorch's structured trace (what
`TORCH_TRACE` records); the graph's nodes know their modules. Both are read while a twin compiles.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch

_TRACE = "torch.__trace"
_MAPPINGS = "inductor_provenance_tracking_node_mappings"
_EXTERN = "extern_kernels."
_ROOT = re.compile(r"L\['\w+'\]\.?")

Origins = dict[str, list[list[str]]]
"""The original operators of a kernel's each run, by the name that the profiler has for it."""


class Provenance:
    """Gathers the origins of the kernels that are compiled while it watches."""

    def __init__(self) -> None:
        """Begin with nothing known."""
        self.origins: Origins = {}
        self._modules: dict[str, str] = {}

    def backend(self, options: Mapping[str, Any]) -> Callable[..., Any]:
        """Return a compiler of graphs: Inductor with these options, its graphs looked at."""

        def compiled(graph: Any, example_inputs: Any) -> Any:
            for node in graph.graph.nodes:
                self._modules[node.name] = _qualified(node)
            inner = torch._inductor.compile_fx.compile_fx  # noqa: SLF001
            return inner(graph, example_inputs, config_patches=dict(options))

        return compiled

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Hear what Inductor tells meanwhile."""
        logger, listener = logging.getLogger(_TRACE), _Listener(self._hear)
        logger.addHandler(listener)
        try:
            yield
        finally:
            logger.removeHandler(listener)

    def _hear(self, told: Mapping[str, Any]) -> None:
        runs: list[tuple[int, str, list[str]]] = []
        for kernel, nodes in told.get("cppCodeToPost", {}).items():
            name, _, number = kernel.rpartition(":")
            before = [each for node in nodes for each in told["postToPre"].get(node, ())]
            names = list(dict.fromkeys(self._modules.get(each, each) for each in before))
            runs.append((int(number) if number.isdigit() else 0, name or kernel, names))
        for _, name, names in sorted(runs, key=lambda run: run[0]):
            self.origins.setdefault(_profiled(name), []).append(names)


class _Listener(logging.Handler):
    """Passes on what one artifact of the structured trace says."""

    def __init__(self, hear: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._hear = hear

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", {})
        if metadata.get("artifact", {}).get("name") == _MAPPINGS:
            self._hear(json.loads(getattr(record, "payload", "") or "{}"))


def origins_of(origins: Origins, event: str, nth: int) -> Sequence[str]:
    """Return what a profiled kernel's nth run in a call does the work of; () when not known."""
    runs = origins.get(_profiled(event), ())
    return runs[nth] if nth < len(runs) else ()


def _profiled(name: str) -> str:
    """Return the name a kernel has in both: without `graph_0_` and the library's prefix."""
    if name.startswith(_EXTERN):
        return f"aten::{name.removeprefix(_EXTERN)}"
    _, marker, rest = name.partition("cpp_fused")
    return marker + rest if marker else name


def _qualified(node: Any) -> str:
    stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
    path = _ROOT.sub("", stack[-1]) if stack else ""
    return f"{path}/{node.name}" if path else str(node.name)
