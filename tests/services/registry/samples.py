"""Agents and manifests for tests of the registry."""

from schemas.agent import Announcement, Hardware, Runtime
from schemas.manifest import Assets, FrameworkNeed, ModelManifest, Port, Step


def an_announcement(agent: str = "a1", incarnation: str = "i1") -> Announcement:
    """Return an agent with ONNX Runtime on a small machine."""
    return Announcement(
        agent=agent,
        incarnation=incarnation,
        hardware=Hardware(hostname="h", architecture="x86_64", cores=2, memory_bytes=1 << 33),
        runtimes=(Runtime(framework="onnxruntime", version="1.31.1"),),
    )


def a_model(name: str = "m", version: str = "1.0.0", operator: str = "decode") -> ModelManifest:
    """Return a model with one step before it."""
    return ModelManifest(
        name=name,
        version=version,
        framework=FrameworkNeed(name="onnxruntime", version=">=1.16"),
        inputs=(Port(type="image", steps=(Step(operator=operator),)),),
        outputs=(Port(type="raw"),),
        model=Assets(graph_path="model.onnx"),
    )
