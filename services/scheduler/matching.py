"""Who can run a request and, for each one that can't, why. Pure."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from packaging.specifiers import SpecifierSet

from mlscope.manifests.constraints import constraint_of, newest_first, satisfies
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.variants import frameworks_of, variants_of
from schemas.agent import Accelerator, Announcement, Hardware, Runtime
from schemas.level import Level
from schemas.manifest import (
    DatasetManifest,
    FrameworkManifest,
    FrameworkNeed,
    HardwareManifest,
    ModelManifest,
    SoftwareManifest,
)
from schemas.plan import Subject
from schemas.request import AgentReason, Evaluate, SystemNeed
from schemas.status import AgentStatus, Catalog
from services.scheduler.described import (
    brought_against,
    framework_manifest_of,
    hardware_against,
    image_against,
    software_against,
)
from services.scheduler.digests import digest_of
from services.scheduler.errors import invalid
from services.scheduler.naming import architecture_of, is_same, plain
from services.scheduler.resolving import (
    dataset_of,
    described_system,
    model_of,
    planned_frameworks,
    planned_system,
    usable,
    verifiable,
)

_RECENT_NS = 600 * 1_000_000_000
_GPU_DEVICES = ("gpu", "cuda", "rocm", "tensorrt", "dml", "metal")


@dataclass(frozen=True, slots=True)
class Candidate:
    """An agent that can run the request, and with what."""

    agent: str
    incarnation: str
    framework: str
    version: str
    device: str
    deepest_level: Level
    #: levels that its collectors of traces give with this framework on this device
    collected: frozenset[Level] = frozenset()
    #: of the framework's build, where one is published
    manifest: FrameworkManifest | None = None


@dataclass(frozen=True, slots=True)
class Match:
    """What a request means, who runs it (best first; one, or all that fit) and who can't.

    `model` is the variant for one framework; `digest` is of the manifest it comes from.
    """

    model: ModelManifest
    dataset: DatasetManifest
    agents: tuple[Candidate, ...]
    reasons: tuple[AgentReason, ...]
    digest: str = ""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The constraints of request and model together."""

    framework: str
    constraints: tuple[SpecifierSet, ...]
    system: SystemNeed
    agents: tuple[str, ...]
    model: ModelManifest
    frameworks: tuple[FrameworkManifest, ...]
    #: collectors that the request switched off
    without: frozenset[str] = frozenset()


def match(request: Evaluate, catalog: Catalog, loads: Mapping[str, int], now_ns: int = 0) -> Match:
    """Return who runs a request; `agents` is empty when nobody can. Raises RequestRefused.

    An agent gone for long before `now_ns` (epoch; 0 asks for all) is named to nobody but who
    asked for it.

    Best is who can trace as deep as asked, then who has the least load (runs by agent). Of a model
    for several frameworks the first variant is taken that somebody can run.
    """
    model = model_of(request, catalog)
    pool = _pool(request, catalog, now_ns)
    variants = verifiable(usable(_variants(request, model)), request)
    found = [_match(request, each, catalog, pool, loads) for each in variants]
    chosen = next((each for each in found if each.agents), found[0])
    digest = digest_of(model)
    if chosen.agents or len(found) == 1:
        return replace(chosen, digest=digest)
    reasons: dict[str, list[str]] = {}
    for each in found:
        for reason in each.reasons:
            reasons.setdefault(reason.agent, []).append(reason.reason)
    together = (
        AgentReason(agent=agent, reason="; ".join(dict.fromkeys(told)))
        for agent, told in reasons.items()
    )
    return replace(chosen, digest=digest, reasons=tuple(together))


def _variants(request: Evaluate, model: ModelManifest) -> list[ModelManifest]:
    """Return the model for the framework a request names, or for each it has. At least one."""
    need = request.framework
    if need is None or not need.name.strip():
        return list(variants_of(model))
    wanted = (each for each in variants_of(model) if is_same(need.name, each.framework.name))
    if found := list(wanted):
        return found
    known = ", ".join(each.name for each in frameworks_of(model))
    raise invalid("framework.name", need.name, f"{known}, as {model.name} needs")


def _match(
    request: Evaluate,
    model: ModelManifest,
    catalog: Catalog,
    pool: list[AgentStatus],
    loads: Mapping[str, int],
) -> Match:
    """Return who runs one variant of a model."""
    dataset = dataset_of(request, model, catalog)
    system = described_system(request.system, catalog)
    wanted = _wanted(request, model, system, catalog.frameworks)
    fitting: list[Candidate] = []
    reasons = [
        AgentReason(agent=agent, reason=_why_not_in(catalog, agent))
        for agent in dict.fromkeys(request.agents)
        if all(each.announcement.agent != agent for each in pool)
    ]
    for status in pool:
        found = _candidate(status, wanted)
        if isinstance(found, Candidate):
            fitting.append(found)
        else:
            reasons.append(AgentReason(agent=status.announcement.agent, reason=found))

    def rank(candidate: Candidate) -> tuple[bool, int, str]:
        deepest = max((candidate.deepest_level, *candidate.collected))
        is_shallow = deepest < request.trace_level
        return is_shallow, loads.get(candidate.agent, 0), candidate.agent

    fitting.sort(key=rank)
    chosen = fitting if request.spread == "all" else fitting[:1]
    return Match(model, dataset, tuple(chosen), tuple(reasons))


def fitting_agents(request: Evaluate, subject: Subject, catalog: Catalog) -> list[Candidate]:
    """Return everyone who can run a planned request now. Raises RequestRefused.

    The manifests are those of its plan, whatever was published or withdrawn since.
    """
    system = described_system(planned_system(request.system, subject), catalog)
    frameworks = planned_frameworks(subject, catalog)
    wanted = _wanted(request, subject.model, system, frameworks)
    found = (_candidate(status, wanted) for status in _pool(request, catalog))
    return [each for each in found if isinstance(each, Candidate)]


def _pool(request: Evaluate, catalog: Catalog, now_ns: int = 0) -> list[AgentStatus]:
    """Return the agents that serve everybody, and those reserved for this very request."""
    keys = ("", request.key)
    since_ns = now_ns - _RECENT_NS
    return [
        each
        for each in catalog.agents
        if each.announcement.reserved_for in keys
        and (
            each.state == "live"
            or not 0 < each.since_ns < since_ns
            or each.announcement.agent in request.agents
        )
    ]


def _why_not_in(catalog: Catalog, agent: str) -> str:
    if any(each.announcement.agent == agent for each in catalog.agents):
        return "is an import that plays back its own evaluation alone"
    return "is not known here"


def _wanted(
    request: Evaluate,
    model: ModelManifest,
    system: SystemNeed,
    frameworks: tuple[FrameworkManifest, ...],
) -> _Wanted:
    need = request.framework
    constraints = [_constraint(model.framework, "model.framework.version")]
    if need:
        constraints.append(_constraint(need, "framework.version"))
    return _Wanted(
        framework=model.framework.name,
        constraints=tuple(constraints),
        system=system,
        agents=request.agents,
        model=model,
        frameworks=frameworks,
        without=frozenset(name for name, switch in request.collectors.items() if switch is False),
    )


def _constraint(need: FrameworkNeed, field: str) -> SpecifierSet:
    try:
        return constraint_of(need.version)
    except BadConstraint as error:
        raise invalid(field, need.version, ">=1.12.0 <2.0, ==1.15.* or 1.15") from error


def _candidate(status: AgentStatus, wanted: _Wanted) -> Candidate | str:
    """Return the agent as a candidate, or the reasons against it."""
    known = status.announcement
    if wanted.agents and known.agent not in wanted.agents:
        return f"not among the agents that the request names: {', '.join(wanted.agents)}"
    if status.state != "live":
        return f"{status.state}: its lease is gone" if status.state == "lost" else "left"
    against = [*machine_against(known, wanted.system), *brought_against(known, wanted.model)]
    fitting = [runtime for runtime in known.runtimes if _runtime_fits(runtime, wanted)]
    if not fitting:
        against.insert(0, _runtimes_against(known, wanted))
    if against:
        return "; ".join(against)
    runtime = max(fitting, key=lambda each: newest_first(each.version))
    device = _device(runtime, wanted.system.device)
    assert device, "a runtime that fits has the device"
    manifest = framework_manifest_of(
        known, runtime.framework, runtime.version, device, wanted.frameworks
    )
    for reason in image_against(wanted.system.image, known, manifest, device):
        return reason
    return Candidate(
        agent=known.agent,
        incarnation=known.incarnation,
        framework=runtime.framework,
        version=runtime.version,
        device=device,
        deepest_level=runtime.deepest_level,
        collected=collected_levels(known, runtime.framework, device, wanted.without),
        manifest=manifest,
    )


def collected_levels(
    known: Announcement, framework: str, device: str, without: frozenset[str] = frozenset()
) -> frozenset[Level]:
    """Return the levels that an agent's collectors give of a framework on a device."""
    return frozenset(
        level
        for each in known.collectors
        if each.name not in without
        and (not each.devices or any(is_device(device, other) for other in each.devices))
        and (not each.frameworks or framework in each.frameworks)
        for level in each.levels
    )


def _runtime_fits(runtime: Runtime, wanted: _Wanted) -> bool:
    return (
        is_same(runtime.framework, wanted.framework)
        and all(satisfies(runtime.version, each) for each in wanted.constraints)
        and bool(_device(runtime, wanted.system.device))
    )


def _runtimes_against(known: Announcement, wanted: _Wanted) -> str:
    same = [r for r in known.runtimes if is_same(r.framework, wanted.framework)]
    if not same:
        return f"has {_named(known.runtimes) or 'no framework'}, wanted {wanted.framework}"
    right = [r for r in same if all(satisfies(r.version, each) for each in wanted.constraints)]
    if not right:
        rule = " and ".join(str(each) for each in wanted.constraints if str(each))
        return f"has {_named(same)}, wanted {rule}"
    has = ", ".join(dict.fromkeys(device for r in right for device in r.devices))
    wish = wanted.system.device or "of any kind"
    return f"{wanted.framework} serves {has or 'no device'}, wanted device {wish}"


def _named(runtimes: Iterable[Runtime]) -> str:
    return ", ".join(f"{each.framework} {each.version}" for each in runtimes)


def _device(runtime: Runtime, wanted: str) -> str:
    """Return the runtime's word for a device, or '' when it has none; any means its CPU first."""
    lower = wanted.strip().lower()
    if not lower:
        return "cpu" if "cpu" in runtime.devices else next(iter(runtime.devices), "")
    return next((device for device in runtime.devices if is_device(device, lower)), "")


def is_device(device: str, wanted: str) -> bool:
    """Tell whether a runtime's word for a device is what is wanted; gpu is any GPU."""
    found, lower = device.lower(), wanted.strip().lower()
    return found == lower or (lower == "gpu" and found in _GPU_DEVICES)


def machine_against(known: Announcement, need: SystemNeed) -> Iterator[str]:
    """Yield what a machine lacks that is needed, the device aside: that is a runtime's."""
    hardware = known.hardware
    architecture = architecture_of(need.architecture)
    if architecture and architecture != architecture_of(hardware.architecture):
        yield f"architecture {hardware.architecture}, wanted {need.architecture}"
    if need.memory_bytes and hardware.memory_bytes < need.memory_bytes:
        yield f"memory {_sizes(hardware.memory_bytes, need.memory_bytes)}"
    yield from _accelerators_against(hardware, need)
    for label, value in need.labels.items():
        found = known.labels.get(label)
        if found != value:
            has = "no such label" if found is None else f"{label}={found}"
            yield f"{has}, wanted {label}={value}"
    if isinstance(need.hardware, HardwareManifest):
        yield from hardware_against(need.hardware, hardware)
    if isinstance(need.software, SoftwareManifest):
        yield from software_against(need.software, known)


def _accelerators_against(hardware: Hardware, need: SystemNeed) -> Iterator[str]:
    has = ", ".join(each.name for each in hardware.accelerators) or "no accelerator"
    named = [each for each in hardware.accelerators if _is_named(each, need.accelerator)]
    if plain(need.accelerator) and not named:
        yield f"{has}, wanted accelerator {need.accelerator}"
        return
    if need.accelerator_memory_bytes:
        most = max((each.memory_bytes for each in named), default=0)
        if most < need.accelerator_memory_bytes:
            yield f"accelerator memory {_sizes(most, need.accelerator_memory_bytes)}"
    if plain(need.interconnect):
        links = {hardware.interconnect, *(each.interconnect for each in named)} - {""}
        yield from _links_against(links, need.interconnect)


def _links_against(links: set[str], wanted: str) -> Iterator[str]:
    if not any(plain(wanted) in plain(link) for link in links):
        yield f"interconnect {', '.join(sorted(links)) or 'unknown'}, wanted {wanted}"


def _is_named(accelerator: Accelerator, wanted: str) -> bool:
    return plain(wanted) in plain(accelerator.name)


def _sizes(found_bytes: int, wanted_bytes: int) -> str:
    """Return what was found and wanted, in GiB or, where these look the same, in bytes."""
    found, wanted = (f"{each / (1 << 30):.1f} GiB" for each in (found_bytes, wanted_bytes))
    if found == wanted:
        found, wanted = f"{found_bytes} bytes", f"{wanted_bytes} bytes"
    return f"{found if found_bytes > 0 else 'unknown'}, wanted {wanted}"
