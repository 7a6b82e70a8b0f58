"""Which agents can run a request and, for each one that cannot, why. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from operator import attrgetter

from packaging.specifiers import SpecifierSet

from mlscope.manifests.constraints import constraint_of, satisfies, version_order
from mlscope.manifests.device_names import gpu_vendors, is_device
from mlscope.manifests.digests import digest_of
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.fitting import (
    Needs,
    disallowed_model,
    install_line,
    missing_parts,
    needs_of,
)
from schemas.agent import Announcement, Runtime
from schemas.manifest import (
    FrameworkManifest,
    FrameworkNeed,
    ModelManifest,
)
from schemas.plan import Subject
from schemas.request import AgentReason, Evaluate, SystemNeed
from schemas.status import AgentStatus, Catalog
from schemas.values.json_values import JsonObject
from services.scheduler.errors import invalid
from services.scheduler.placement.candidates import (
    Candidate,
    Match,
    Offer,
    on_all_frameworks,
    on_one_framework,
)
from services.scheduler.placement.collected import collected_levels
from services.scheduler.placement.containers import within_containers
from services.scheduler.placement.naming import is_same
from services.scheduler.placement.options import check_options, untaken_options
from services.scheduler.placement.requirements import (
    framework_manifest_of,
    image_mismatches,
    machine_mismatches,
)
from services.scheduler.placement.resolving import (
    dataset_of,
    described_system,
    model_of,
    planned_frameworks,
    planned_system,
    usable,
    verifiable,
    wanted_variants,
)
from services.scheduler.placement.sent import with_own_versions

_RECENT_NS = 600 * 1_000_000_000
_MOST_REPEATED = 8
_IMPORT = "is an import that plays back only its own evaluation"
_GONE = {
    "lost": "lost: its lease is gone",
    "left": "left",
    "revoked": "its key was revoked",
}


@dataclass(frozen=True, slots=True)
class _Kind:
    """What agents that differ only in their machines would run, or why they cannot."""

    #: None where they cannot, whatever the machine
    offer: Offer | None
    #: why none of their frameworks fits
    mismatches: tuple[str, ...]
    #: what else they lack
    lacks: tuple[str, ...]
    #: why they are not in the image that the request wants; it counts alone
    image_reason: str = ""


_NO_VENDORS: frozenset[str] = frozenset()
_SHARED = attrgetter("runtimes", "collectors", "packages", "models", "builders", "hosts", "cached")
"""The parts of announcements that agents of one kind share; see `SharedParts`."""
_OWN = attrgetter("allows_inline_python", "has_hub", "hub_reason", "image")


@dataclass(frozen=True, slots=True)
class _Constraints:
    """The constraints of request and model together."""

    framework: str
    versions: tuple[SpecifierSet, ...]
    system: SystemNeed
    #: only these, if any; `unnamed` says so of all others
    agents: frozenset[str]
    unnamed: str
    model: ModelManifest
    frameworks: tuple[FrameworkManifest, ...]
    #: collectors that the request switched off
    without: frozenset[str] = frozenset()
    options: JsonObject = field(default_factory=dict)
    #: of the model, beside its framework
    needs: Needs = field(default_factory=Needs)
    #: whether the need names anything that differs between machines, but for their devices
    minds_machine: bool = True
    #: what was decided of parts of announcements, by their identity
    _kinds: dict[tuple[object, ...], _Kind] = field(default_factory=dict)

    def kind_of(self, agent: Announcement) -> _Kind:
        """Return the kind of an agent, which says all but whether its machine fits.

        The catalog is alive while an agent is matched, so the identity of a part of it is a key.
        Agents of one kind share parts (`SharedParts`): of a thousand alike, one is decided.
        """
        hardware = agent.hardware
        vendors = gpu_vendors(hardware) if hardware.accelerators else _NO_VENDORS
        key = (hardware.architecture, vendors, *_OWN(agent), *map(id, _SHARED(agent)))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _kind_of(agent, self, vendors)
        return kind

    def fits(self, runtime: Runtime, vendors: frozenset[str]) -> bool:
        """Tell whether a runtime has the framework, in a version and on a device that fit.

        `vendors` are those of the machine's GPUs.
        """
        return (
            is_same(runtime.framework, self.framework)
            and self.fits_version(runtime.version)
            and bool(_device_of(runtime, self.system.device, vendors))
        )

    def fits_version(self, version: str) -> bool:
        """Tell whether a version meets every constraint on it."""
        return all(satisfies(version, constraint) for constraint in self.versions)


def match(request: Evaluate, catalog: Catalog, loads: Mapping[str, int], now_ns: int = 0) -> Match:
    """Return the agents of a `catalog` that can run a `request`; `agents` is empty if none can.

    An agent that left long before `now_ns` (epoch; 0 is never) is given as a reason only if the
    request names it. An agent that can trace as deep as asked comes first, then the one with the
    least load; `loads` is the number of unfinished runs by agent. If a model is for several
    frameworks, the first variant that an agent can run is taken; with `spread: all`, the first
    that each agent can run. Manifests in the request are matched `with_own_versions`.
    Raises RequestRefused.
    """
    request = with_own_versions(request, catalog)
    model = model_of(request, catalog)
    pool = _pool(request, catalog, now_ns)
    variants = verifiable(usable(wanted_variants(request, model)), request)
    matches = [_match_variant(request, variant, catalog, pool, loads) for variant in variants]
    chosen = (on_all_frameworks if request.spread == "all" else on_one_framework)(matches)
    if request.options and not chosen.agents:
        check_options(request.options, variants, pool)
    return replace(chosen, digest=digest_of(model), manifest=model)


def _match_variant(
    request: Evaluate,
    model: ModelManifest,
    catalog: Catalog,
    pool: list[AgentStatus],
    loads: Mapping[str, int],
) -> Match:
    """Return who runs one variant of a model."""
    dataset = dataset_of(request, model, catalog)
    system = described_system(request.system, catalog)
    constraints = _constraints_of(request, model, system, catalog.frameworks)
    candidates = {status.announcement.agent: _candidate(status, constraints) for status in pool}
    absent = [name for name in dict.fromkeys(request.agents) if name not in candidates]
    known_names = {status.announcement.agent for status in catalog.agents} if absent else ()
    reasons = {name: _IMPORT if name in known_names else "is not known here" for name in absent}
    reasons |= {name: own for name, own in candidates.items() if isinstance(own, str)}

    def rank(candidate: Candidate) -> tuple[bool, int, str]:
        is_shallow = candidate.offer.deepest_level < request.trace_level
        return is_shallow, loads.get(candidate.agent, 0), candidate.agent

    fitting = sorted((own for own in candidates.values() if isinstance(own, Candidate)), key=rank)
    chosen = fitting if request.spread == "all" else fitting[:1]
    unfit = tuple(AgentReason(agent=name, reason=reason) for name, reason in reasons.items())
    return Match(model, dataset, tuple(chosen), unfit, fitting=tuple(fitting))


def fitting_agents(request: Evaluate, subject: Subject, catalog: Catalog) -> list[Candidate]:
    """Return every agent of a `catalog` that can run a planned `request` now, in its container.

    The manifests are those of `subject`, its plan, whatever was published or withdrawn since.
    Raises RequestRefused.
    """
    system = described_system(planned_system(request.system, subject), catalog)
    frameworks = planned_frameworks(subject, catalog)
    constraints = _constraints_of(request, subject.model, system, frameworks)
    candidates = (_candidate(status, constraints) for status in _pool(request, catalog))
    return [
        candidate
        for candidate in candidates
        if isinstance(candidate, Candidate) and candidate.container == subject.container
    ]


def _pool(request: Evaluate, catalog: Catalog, now_ns: int = 0) -> list[AgentStatus]:
    """Return the agents that serve everybody, and those reserved for this very request."""
    keys = ("", request.key)
    named = frozenset(request.agents)
    since_ns = now_ns - _RECENT_NS
    return [
        status
        for status in catalog.agents
        if status.announcement.reserved_for in keys
        and (
            status.state == "live"
            or not 0 < status.since_ns < since_ns
            or status.announcement.agent in named
        )
    ]


def _constraints_of(
    request: Evaluate,
    model: ModelManifest,
    system: SystemNeed,
    frameworks: tuple[FrameworkManifest, ...],
) -> _Constraints:
    need = request.framework
    versions = [_version_constraint(model.framework, "model.framework.version")]
    if need:
        versions.append(_version_constraint(need, "framework.version"))
    devices_alone = SystemNeed(device=system.device, image=system.image)
    return _Constraints(
        framework=model.framework.name,
        versions=tuple(versions),
        system=system,
        agents=frozenset(request.agents),
        unnamed=f"not among the agents that the request names: {_listed(request.agents)}",
        model=model,
        frameworks=frameworks,
        without=frozenset(name for name, switch in request.collectors.items() if switch is False),
        options=request.options,
        needs=needs_of(model, {**model.options, **request.options}),
        minds_machine=system != devices_alone,
    )


def _listed(agents: Sequence[str]) -> str:
    """Return the first few names; every other agent's reason repeats them."""
    shown = ", ".join(agents[:_MOST_REPEATED])
    further = len(agents) - _MOST_REPEATED
    return f"{shown} and {further} more" if further > 0 else shown


def _version_constraint(need: FrameworkNeed, field_name: str) -> SpecifierSet:
    try:
        return constraint_of(need.version)
    except BadConstraint as error:
        raise invalid(field_name, need.version, ">=1.12.0 <2.0, ==1.15.* or 1.15") from error


def _candidate(status: AgentStatus, constraints: _Constraints) -> Candidate | str:
    """Return the agent as a candidate, or the reasons why it is none."""
    agent = status.announcement
    if constraints.agents and agent.agent not in constraints.agents:
        return constraints.unnamed
    if status.state != "live":
        return _GONE[status.state]
    if status.is_drained:
        return "drained: it gets no new evaluations"
    own = _fitting(agent, constraints)
    need = constraints.system
    if isinstance(own, Candidate) or not need.image:
        return own
    reasons = [own]
    builds = constraints.frameworks
    for within in within_containers(agent, need.image, constraints.framework, need.device, builds):
        if isinstance(within, str):
            reasons.append(within)
            continue
        fitting = _fitting(within, constraints)
        if isinstance(fitting, Candidate):
            return fitting._replace(container=within.image)
        reasons.append(fitting)
    return "; ".join(dict.fromkeys(reasons))


def _fitting(agent: Announcement, constraints: _Constraints) -> Candidate | str:
    """Return an agent, or one within a container, as a candidate, or the reasons why not."""
    kind = constraints.kind_of(agent)
    need = constraints.system
    faults = tuple(machine_mismatches(agent, need)) if constraints.minds_machine else ()
    if kind.offer is None or faults:
        return "; ".join((*kind.mismatches, *faults, *kind.lacks)) or kind.image_reason
    return Candidate(agent.agent, agent.incarnation, kind.offer)


def _kind_of(agent: Announcement, constraints: _Constraints, vendors: frozenset[str]) -> _Kind:
    """Return the kind of an agent; `vendors` are those of its GPUs."""
    lacks = (
        *disallowed_model(agent, constraints.model, constraints.options),
        *(lack.text for lack in missing_parts(agent, constraints.needs)),
    )
    fitting = [runtime for runtime in agent.runtimes if constraints.fits(runtime, vendors)]
    if not fitting:
        return _Kind(None, (_runtime_mismatch(agent, constraints),), lacks)
    runtime = max(fitting, key=lambda runtime: version_order(runtime.version))
    lacks += tuple(untaken_options(runtime, constraints.model, constraints.options))
    device = _device_of(runtime, constraints.system.device, vendors)
    assert device, "a runtime that fits has the device"
    manifest = framework_manifest_of(
        agent, runtime.framework, runtime.version, device, constraints.frameworks
    )
    faults = image_mismatches(constraints.system.image, agent, manifest, device)
    image_reason = next(iter(faults), "")
    if lacks or image_reason:
        return _Kind(None, (), lacks, image_reason)
    collected = collected_levels(agent, runtime.framework, device, constraints.without)
    offer = Offer(
        framework=runtime.framework,
        version=runtime.version,
        device=device,
        model=constraints.model,
        framework_level=runtime.deepest_level,
        collected=collected,
        deepest_level=max((runtime.deepest_level, *collected)),
        manifest=manifest,
    )
    return _Kind(offer, (), ())


def _runtime_mismatch(agent: Announcement, constraints: _Constraints) -> str:
    """Return why no runtime of an agent fits: its framework, version or devices."""
    framework = constraints.framework
    same = [runtime for runtime in agent.runtimes if is_same(runtime.framework, framework)]
    if not same:
        return f"has {_names_of(agent.runtimes)}, wanted {framework}{install_line(framework)}"
    of_version = [runtime for runtime in same if constraints.fits_version(runtime.version)]
    if not of_version:
        rule = " and ".join(filter(None, map(str, constraints.versions)))
        return f"has {_names_of(same)}, wanted {rule}"
    devices = dict.fromkeys(chain.from_iterable(runtime.devices for runtime in of_version))
    device = constraints.system.device or "of any kind"
    absence = "; ".join(runtime.device_reason for runtime in of_version if runtime.device_reason)
    served = ", ".join(devices) or f"no device{absence and f' ({absence})'}"
    return f"{framework} serves {served}, wanted device {device}"


def _names_of(runtimes: Iterable[Runtime]) -> str:
    names = (f"{runtime.framework} {runtime.version}" for runtime in runtimes)
    return ", ".join(names) or "no framework"


def _device_of(runtime: Runtime, device: str, vendors: frozenset[str]) -> str:
    """Return the runtime's own name of a device, or '' without it; '' as `device` prefers a CPU.

    `vendors` are those of the machine's GPUs.
    """
    lower = device.strip().lower()
    if not lower:
        return "cpu" if "cpu" in runtime.devices else next(iter(runtime.devices), "")
    return next((own for own in runtime.devices if is_device(own, lower, vendors)), "")
