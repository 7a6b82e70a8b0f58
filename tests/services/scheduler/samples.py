"""Agents, manifests and requests for tests of the scheduler."""

from collections.abc import Sequence
from typing import Any

from schemas.agent import Accelerator, Announcement, Hardware, Runtime
from schemas.level import Level
from schemas.manifest import (
    Assets,
    DatasetManifest,
    FrameworkNeed,
    ModelManifest,
    Port,
    Synthetic,
)
from schemas.request import Evaluate
from schemas.status import AgentStatus, Catalog

GIB = 1 << 30


def an_agent(agent: str = "a1", *, state: str = "live", **changes: Any) -> AgentStatus:
    """Return an agent of the catalog; `changes` are of its announcement."""
    known: dict[str, Any] = {
        "agent": agent,
        "incarnation": "i1",
        "hardware": a_machine(),
        "runtimes": (a_runtime(),),
    }
    announcement = Announcement(**(known | changes))
    return AgentStatus(announcement=announcement, state=state)


def a_machine(**changes: Any) -> Hardware:
    """Return a small machine."""
    known: dict[str, Any] = {
        "hostname": "h",
        "architecture": "x86_64",
        "cores": 2,
        "memory_bytes": 8 * GIB,
    }
    return Hardware(**(known | changes))


def a_gpu(**changes: Any) -> Accelerator:
    """Return an accelerator."""
    known: dict[str, Any] = {"name": "NVIDIA H200", "memory_bytes": 139 * GIB}
    return Accelerator(**(known | changes))


def a_runtime(**changes: Any) -> Runtime:
    """Return ONNX Runtime on the CPU, which can trace layers."""
    known: dict[str, Any] = {
        "framework": "onnxruntime",
        "version": "1.31.1",
        "deepest_level": Level.FRAMEWORK,
    }
    return Runtime(**(known | changes))


def a_model(name: str = "tiny", version: str = "1.0.0", **changes: Any) -> ModelManifest:
    """Return a model of four floats."""
    known: dict[str, Any] = {
        "name": name,
        "version": version,
        "framework": FrameworkNeed(name="onnxruntime", version=">=1.16.0 <2.0"),
        "inputs": (Port(type="raw", shape=(-1, 4)),),
        "outputs": (Port(type="raw", shape=(-1, 4)),),
        "model": Assets(graph_path="model.onnx"),
        "dataset": "vectors",
    }
    return ModelManifest(**(known | changes))


def a_dataset(name: str = "vectors", shape: tuple[int, ...] = (4,)) -> DatasetManifest:
    """Return sixty-four synthetic samples."""
    return DatasetManifest(name=name, synthetic=Synthetic(shape=shape))


def a_catalog(*agents: AgentStatus, **changes: Any) -> Catalog:
    """Return a catalog of one model, one dataset and these agents (one, if none is given)."""
    known: dict[str, Any] = {
        "agents": agents or (an_agent(),),
        "models": (a_model(),),
        "datasets": (a_dataset(),),
    }
    return Catalog(**(known | changes))


FRAMEWORKS = ("onnxruntime", "openvino", "litert")


def a_model_of(*frameworks: str, **changes: Any) -> ModelManifest:
    """Return a model with a variant for each of the frameworks, in this order."""
    variants = [{"name": name, "options": {"is_for": name}} for name in frameworks]
    manifest = a_model().model_dump(exclude={"framework", "model", "options"})
    return ModelManifest.model_validate(manifest | {"frameworks": variants} | changes)


def agents_of(**frameworks: Sequence[str]) -> tuple[AgentStatus, ...]:
    """Return agents that have the frameworks given by their names."""
    return tuple(
        an_agent(agent, runtimes=tuple(a_runtime(framework=name, version="2.0") for name in own))
        for agent, own in frameworks.items()
    )


def a_request(**changes: Any) -> Evaluate:
    """Return a request for one short run."""
    known: dict[str, Any] = {
        "model": "tiny",
        "scenarios": [{"name": "online", "parameters": {"queries": 5}}],
    }
    return Evaluate.model_validate(known | changes)
