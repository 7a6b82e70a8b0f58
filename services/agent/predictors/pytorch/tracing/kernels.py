"""Find the modules whose operators a compiled PyTorch model's kernels run.

Inductor writes to PyTorch's structured trace (what `TORCH_TRACE` records) which kernel each node of
the traced graph became, and the nodes have the names of their modules. Both are read while a twin
of the model compiles.
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
"""For each run of a kernel its original operators; by the kernel's name in the profiler."""


class Provenance:
    """Collects the origins of the kernels that are compiled while it watches."""

    def __init__(self) -> None:
        """Begin without any origin."""
        self.origins: Origins = {}
        #: module and node name, by the name of a graph's node
        self._modules: dict[str, str] = {}

    def backend(self, options: Mapping[str, Any]) -> Callable[..., Any]:
        """Return a compiler for `torch.compile`: Inductor, which also notes its graphs' modules.

        `options` are those of Inductor's configuration.
        """

        def compile_graph(graph: Any, example_inputs: Any) -> Any:
            for node in graph.graph.nodes:
                stack = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
                path = _ROOT.sub("", stack[-1]) if stack else ""
                self._modules[node.name] = f"{path}/{node.name}" if path else str(node.name)
            compile_fx = torch._inductor.compile_fx.compile_fx  # noqa: SLF001
            return compile_fx(graph, example_inputs, config_patches=dict(options))

        return compile_graph

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Collect origins from Inductor's trace within a `with` block."""
        logger, listener = logging.getLogger(_TRACE), _MappingListener(self._add_mappings)
        logger.addHandler(listener)
        try:
            yield
        finally:
            logger.removeHandler(listener)

    def _add_mappings(self, mappings: Mapping[str, Any]) -> None:
        runs: list[tuple[int, str, list[str]]] = []
        for kernel, nodes in mappings.get("cppCodeToPost", {}).items():
            name, _, number = kernel.rpartition(":")
            origins = [origin for node in nodes for origin in mappings["postToPre"].get(node, ())]
            names = list(dict.fromkeys(self._modules.get(origin, origin) for origin in origins))
            runs.append((int(number) if number.isdigit() else 0, name or kernel, names))
        for _, name, names in sorted(runs, key=lambda run: run[0]):
            self.origins.setdefault(_profiler_name(name), []).append(names)


class _MappingListener(logging.Handler):
    """Passes on Inductor's node mappings from PyTorch's structured trace."""

    def __init__(self, add_mappings: Callable[[Mapping[str, Any]], None]) -> None:
        super().__init__()
        self._add_mappings = add_mappings

    def emit(self, record: logging.LogRecord) -> None:
        metadata = getattr(record, "metadata", {})
        if metadata.get("artifact", {}).get("name") == _MAPPINGS:
            self._add_mappings(json.loads(getattr(record, "payload", "") or "{}"))


def origins_of(origins: Origins, event: str, nth: int) -> Sequence[str]:
    """Return the original operators of a kernel's run; () when they are unknown.

    `origins`: those of all kernels; `event`: the kernel's name in the profile; `nth`: the number of
    the run in its call, from 0.
    """
    runs = origins.get(_profiler_name(event), ())
    return runs[nth] if nth < len(runs) else ()


def _profiler_name(name: str) -> str:
    """Return a kernel's name without `graph_0_` and the library's prefix."""
    if name.startswith(_EXTERN):
        return f"aten::{name.removeprefix(_EXTERN)}"
    _, marker, suffix = name.partition("cpp_fused")
    return marker + suffix if marker else name
