"""The page of frameworks: builds in the catalog, agents that have them, options. Pure."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlscope.manifests.variants import frameworks_of
from schemas.agent import Runtime
from schemas.manifest import FrameworkManifest
from schemas.status import AgentStatus, Catalog

EXTRAS = frozenset(
    {"jax", "litert", "onnxruntime", "openvino", "pytorch", "tensorflow", "tensorrt"}
)
"""Frameworks that are extras of this package, by their own names."""


@dataclass(frozen=True, slots=True)
class Host:
    """An agent that has a framework."""

    status: AgentStatus
    runtime: Runtime

    @property
    def name(self) -> str:
        """The agent's name."""
        return self.status.announcement.agent

    @property
    def is_live(self) -> bool:
        """Whether it is there now."""
        return self.status.state == "live"


@dataclass(frozen=True, slots=True)
class FrameworkEntry:
    """A framework: its builds in the catalog, newest first, and the agents that have it."""

    name: str
    builds: Sequence[FrameworkManifest]
    hosts: Sequence[Host]
    models: int

    @property
    def description(self) -> str:
        """What it is, by its newest build."""
        return self.builds[0].description if self.builds else ""

    @property
    def options(self) -> Mapping[str, str]:
        """The options of its predictor, by its newest build."""
        return self.builds[0].options if self.builds else {}

    @property
    def defaults(self) -> Mapping[str, Any]:
        """Options that its newest build sets for every model."""
        return dict(self.builds[0].defaults) if self.builds else {}

    @property
    def containers(self) -> list[tuple[str, str, str]]:
        """Version, place (architecture and device) and image of each container."""
        return [
            (build.version, f"{architecture}, {device}", image)
            for build in self.builds
            for architecture, images in build.containers.items()
            for device, image in images.items()
        ]

    @property
    def command(self) -> str:
        """What installs it where an agent runs; '' where this package has no extra for it."""
        return f"pip install 'mlscope[{self.name}]'" if self.name in EXTRAS else ""

    @property
    def is_here(self) -> bool:
        """Whether an agent has it now."""
        return any(host.is_live for host in self.hosts)


@dataclass(frozen=True, slots=True)
class FrameworksView:
    """All frameworks that the catalog or an agent has."""

    entries: Sequence[FrameworkEntry]
    template: ClassVar[str] = "frameworks.html"
    title: ClassVar[str] = "Frameworks"


def frameworks_view(catalog: Catalog) -> FrameworksView:
    """Return the frameworks of a catalog and its agents: those that an agent has now first."""
    builds: dict[str, list[FrameworkManifest]] = defaultdict(list)
    for manifest in catalog.frameworks:
        builds[manifest.name].insert(0, manifest)
    hosts: dict[str, list[Host]] = defaultdict(list)
    for status in catalog.agents:
        for runtime in status.announcement.runtimes:
            hosts[runtime.framework].append(Host(status, runtime))
    models = Counter(
        name
        for model in catalog.models
        if not model.hidden
        for name in {need.name for need in frameworks_of(model)}
    )
    entries = [
        FrameworkEntry(
            name=name,
            builds=builds.get(name, []),
            hosts=sorted(hosts.get(name, []), key=lambda host: (not host.is_live, host.name)),
            models=models[name],
        )
        for name in sorted({*builds, *hosts})
    ]
    return FrameworksView(sorted(entries, key=lambda entry: not entry.is_here))
