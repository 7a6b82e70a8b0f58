"""What an agent lacks to open a model: a framework, packages, a hub, a permission. Pure."""

import shlex
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from mlscope.assets.addresses import HttpSource, HubSource, address_of, parse
from mlscope.assets.checksums import parse_checksum
from mlscope.assets.errors import BadAddress, BadChecksum
from mlscope.assets.keys import index_key, never_changes, short_key
from mlscope.manifests.builders import is_allowed
from mlscope.manifests.constraints import constraint_of, satisfies
from mlscope.manifests.digests import digest_of
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.variants import variants_of
from mlscope.manifests.verifying import OPTION, RANDOM, RANDOM_ADVICE, UNVERIFIED, refused_in
from schemas.agent import Announcement, PackageFacts
from schemas.manifest import CODE_FIELDS, Assets, ModelManifest
from schemas.status import AgentStatus
from schemas.values.framework_names import FRAMEWORKS

_MOST_NAMES = 3
_TENSOR_FILES = ("pytorch", "jax")
"""Frameworks that read weights in .safetensors by the package of that name."""


@dataclass(frozen=True, slots=True)
class Lack:
    """What an agent lacks, as `timm`, and a sentence that says how to mend it."""

    part: str
    text: str


@dataclass(frozen=True, slots=True)
class Needs:
    """What a variant of a model needs of an agent beside its framework."""

    #: the import name of a package, and what needs it
    packages: Mapping[str, str] = field(default_factory=dict)
    #: the constraint on the version of some of these packages
    versions: Mapping[str, str] = field(default_factory=dict)
    files: tuple["RemoteFile", ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file that an agent fetches unless its cache has it."""

    address: str
    #: the host as the address names it, with its port if any; '' is the model hub
    host: str
    #: what an agent announces where its cache has the file; '' where no copy counts
    short_key: str
    #: whether random weights make it unnecessary
    may_be_random: bool


def needs_of(model: ModelManifest, options: Mapping[str, Any]) -> Needs:
    """Return what a variant of a `model` needs; the `options` are those of a request."""
    assets = model.model
    is_random = RANDOM in (assets.weights, options.get(OPTION))
    packages: dict[str, str] = {}
    root = assets.builder.partition(".")[0]
    if root and root != "services":
        packages[root] = f"builder {assets.builder}"
    has_tensor_file = assets.weights_path.endswith(".safetensors") and not is_random
    if has_tensor_file and model.framework.name.lower() in _TENSOR_FILES:
        packages["safetensors"] = f"weights {assets.weights_path}"
    if any(step.operator == "decode" for port in model.inputs for step in port.steps):
        packages["PIL"] = "step decode"
    return Needs(
        packages=packages,
        versions={root: assets.builder_version} if assets.builder_version else {},
        files=tuple(_remote_files(assets, is_random=is_random)),
    )


def _remote_files(assets: Assets, *, is_random: bool) -> Iterator[RemoteFile]:
    """Yield the files of a model that are fetched from a model hub or another host."""
    checksums = {
        "" if is_random else assets.weights_path: assets.weights_checksum,
        "" if assets.builder else assets.graph_path: assets.checksum,
    }
    if assets.archive:
        checksums = {assets.archive: assets.archive_checksum}
    for name, text in checksums.items():
        try:
            source, checksum = parse(address_of(assets, name or ".")), parse_checksum(text)
        except (BadAddress, BadChecksum):
            continue
        if name and isinstance(source, HttpSource | HubSource):
            host = urlsplit(source.url).netloc.lower() if isinstance(source, HttpSource) else ""
            is_kept = checksum is not None or never_changes(source)
            key = short_key(index_key(source, checksum)) if is_kept else ""
            may_be_random = bool(assets.builder) and name == assets.weights_path
            yield RemoteFile(source.address, host, key, may_be_random)


def missing_parts(agent: Announcement, needs: Needs) -> Iterator[Lack]:
    """Yield what an agent lacks of a model's `needs`, and how to mend it.

    An agent of release 0.1, which announces neither packages nor hubs, lacks nothing.
    """
    facts = {fact.name: fact for fact in agent.packages or ()}
    for name, needed_by in needs.packages.items():
        fact, constraint = facts.get(name, PackageFacts(name=name)), needs.versions.get(name, "")
        if fact.reason:
            yield Lack(name, f"{needed_by} needs {name}: {fact.reason}")
        elif fact.version and not _is_met(constraint, [fact.version]):
            versions = f"{name}{constraint}"
            reason = f"there is {fact.version}: pip install --upgrade {shlex.quote(versions)}"
            yield Lack(versions, f"{needed_by} needs {versions}, and {reason}")
    hosts = {fact.name: fact.reason for fact in agent.hosts or ()}
    if agent.has_hub is False:
        hosts[""] = agent.hub_reason or "MLSCOPE_HUB_URL is not set there"
    for file in needs.files:
        reason = hosts.get(file.host, "")
        if reason and file.short_key not in agent.cached:
            advice = f"; {RANDOM_ADVICE}" if file.may_be_random else ""
            where = f"no access to {file.host}" if file.host else "no model hub"
            yield Lack(file.host or "a model hub", f"{where} for {file.address}: {reason}{advice}")


def disallowed_model(
    agent: Announcement, model: ModelManifest, options: Mapping[str, Any]
) -> Iterator[str]:
    """Yield why an agent's owner does not allow a model with the `options` of a request.

    It is another's model, it has files that nobody can verify, inline Python, or a builder.
    """
    if agent.models is not None:
        if not digest_of(model).startswith(agent.models):
            yield "opens only models of its own catalog (MLSCOPE_MODELS=catalog there)"
        elif options.get(OPTION) == UNVERIFIED and refused_in(model.model, {}) is not None:
            yield "opens only verified files (MLSCOPE_MODELS=catalog there)"
    has_code = any(getattr(model, name) for name in CODE_FIELDS)
    if has_code and not agent.allows_inline_python:
        yield "runs no inline Python (MLSCOPE_ALLOW_INLINE_PYTHON is off there)"
    builder, allowed = model.model.builder, agent.builders
    if builder and allowed is not None and not is_allowed(builder, allowed):
        yield f"builder {builder} is not allowed there (MLSCOPE_BUILDERS: {', '.join(allowed)})"


def install_line(framework: str) -> str:
    """Return how to install a framework, in brackets; '' for one of another package."""
    name = framework.strip().lower()
    is_extra = name in FRAMEWORKS and name != "remote"
    return f" (pip install 'mlscope[{name}]')" if is_extra else ""


@dataclass(frozen=True, slots=True)
class Running:
    """The agents that can run a model now, or what they lack.

    `option` is what a request must say with it, as `weights=unverified`; '' is nothing.
    """

    agents: tuple[str, ...] = ()
    missing: tuple[Lack, ...] = ()
    option: str = ""

    @property
    def text(self) -> str:
        """The agents, as `a1, a2`, or `needs timm` for what they lack."""
        if not self.agents:
            return f"needs {', '.join(dict.fromkeys(lack.part for lack in self.missing))}"
        names = ", ".join(self.agents[:_MOST_NAMES])
        further = len(self.agents) - _MOST_NAMES
        names += f" and {further} more" if further > 0 else ""
        return f"{names} with --option {self.option}" if self.option else names

    @property
    def reasons(self) -> str:
        """Why no agent runs it and how to mend that, in sentences; '' where one does."""
        return "; ".join(dict.fromkeys(lack.text for lack in self.missing))


@dataclass(frozen=True, slots=True)
class Alike:
    """Agents that open the same models: one of them, and the names of all."""

    first: Announcement
    names: tuple[str, ...]


def alike(agents: Iterable[AgentStatus]) -> tuple[Alike, ...]:
    """Return the live agents that serve everybody, those together that open the same models."""
    groups: dict[Hashable, list[Announcement]] = {}
    for status in agents:
        own = status.announcement
        if status.state == "live" and not status.is_drained and not own.reserved_for:
            leave = (own.allows_inline_python, own.models, own.builders)
            web = (own.has_hub, own.hub_reason, own.hosts, own.cached)
            key = (own.runtimes, own.packages, web, leave)
            groups.setdefault(key, []).append(own)
    return tuple(
        Alike(own[0], tuple(announcement.agent for announcement in own)) for own in groups.values()
    )


def running_of(model: ModelManifest, groups: Sequence[Alike]) -> Running:
    """Return where any variant of a `model` runs, among `groups` of agents.

    A request may still rule an agent out: by its device, versions, collectors or memory.
    """
    if not groups:
        return Running(missing=(Lack("an agent", "no agent is live: mlscope up, or mlscope join"),))
    variants = [(own, needs_of(own, own.options)) for own in variants_of(model)]
    lacking: dict[Lack, None] = {}
    fitting: list[str] = []
    for group in groups:
        faults = [tuple(_faults(group.first, variant, needs)) for variant, needs in variants]
        if () in faults:
            fitting += group.names
        lacking |= dict.fromkeys(lack for variant_lacks in faults for lack in variant_lacks)
    if not fitting:
        return Running(missing=tuple(lacking))
    is_refused = all(refused_in(own.model, own.options) for own, _ in variants)
    return Running(tuple(fitting), option=f"{OPTION}={UNVERIFIED}" if is_refused else "")


def _faults(agent: Announcement, model: ModelManifest, needs: Needs) -> Iterator[Lack]:
    """Yield why an agent cannot open one variant of a model."""
    name, constraint = model.framework.name, model.framework.version
    runtimes = [own for own in agent.runtimes if own.devices]
    versions = [own.version for own in runtimes if own.framework.lower() == name.strip().lower()]
    if not versions:
        yield Lack(name, f"{name} is not installed{install_line(name)}")
        return
    if not _is_met(constraint, versions):
        reason = f"{name} {constraint} is not installed: there is {', '.join(versions)}"
        yield Lack(f"{name} {constraint}", reason)
    yield from missing_parts(agent, needs)
    # A file without a checksum opens only where a request says so, and the row says so too.
    options = {OPTION: UNVERIFIED} if refused_in(model.model, model.options) else {}
    for reason in disallowed_model(agent, model, options):
        yield Lack("its owner's permission", reason)


def _is_met(constraint: str, versions: Iterable[str]) -> bool:
    try:
        specifiers = constraint_of(constraint)
    except BadConstraint:
        return False
    return any(satisfies(version, specifiers) for version in versions)
