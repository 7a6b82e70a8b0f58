"""The registry's decisions about manifests and lost agents, given the catalog."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from mlscope.load.errors import InvalidParameter, UnknownParameter
from mlscope.load.parameters import shortened
from mlscope.load.scenarios import BUILT_IN, Scenario
from mlscope.manifests.checking import faults_in
from mlscope.manifests.digests import digest_of
from schemas.agent import AgentAnnounced, AgentLost, Lease
from schemas.manifest import (
    Manifest,
    ManifestPublished,
    ManifestWithdrawn,
    ScenarioManifest,
)
from schemas.price import AgentPriced, Price, PriceKept, SetPrice
from schemas.publishing import CatalogChanged, WithdrawManifest
from schemas.request import (
    Refused,
)
from schemas.values.framework_names import FRAMEWORKS
from services.registry.errors import ManifestRefused
from services.registry.state import RegistryState

MOST_PRICES = 4096
"""Agents whose prices are kept."""
CHECKED_QUERIES = 100_000
"""The queries of the longest load that is made for every check: in 0.1 s. One of 10 million can
take 15 s, in which the registry answers nobody."""


def decide_publish(
    current: Manifest | None,
    manifest: Manifest,
    withdrawn: str = "",
    announced: Collection[str] = (),
    published_by: str = "",
) -> tuple[CatalogChanged, ManifestPublished | None]:
    """Return the answer to `publish` and the fact that makes it true, None if it is already.

    `manifest` is to be published; `current` is the one in the catalog with its kind, name and
    version, `withdrawn` the digest of the one that was withdrawn: a version belongs to one text.
    `announced` are the agents' frameworks, in lower case; `published_by` is who asks. Raises
    ManifestRefused.
    """
    _check(manifest, {*FRAMEWORKS, *announced})
    digest = digest_of(manifest)
    answer = CatalogChanged(
        kind=manifest.kind, name=manifest.name, version=manifest.version, digest=digest
    )
    before = withdrawn if current is None else digest_of(current)
    if before not in ("", digest):
        how = "was withdrawn" if current is None else "is known"
        advice = "publish the change under a new version"
        raise ManifestRefused(
            Refused(
                error="conflict",
                message=(
                    f"{manifest.kind} {manifest.name} {manifest.version} {how} with another text; "
                    f"{advice}"
                ),
                field="manifest.version",
                found=f"sha256 {digest}",
                allowed=f"{advice}; this one belongs to sha256 {before}",
            )
        )
    if current is None:
        fact = ManifestPublished(manifest=manifest, digest=digest, published_by=published_by)
        return answer, fact
    return answer.model_copy(update={"repeated": True}), None


def decide_price(
    current: Price | None, priced_agents: int, command: SetPrice, set_by: str
) -> tuple[PriceKept, AgentPriced | None]:
    """Return the answer to `price` and the fact that makes it true, None if it is already.

    `current` is the price that the agent of the `command` has, `priced_agents` how many have one;
    `set_by` is who asks. Raises ManifestRefused.
    """
    dollars = command.dollars_per_hour
    answer = PriceKept(agent=command.agent, dollars_per_hour=dollars)
    if dollars == (current.dollars_per_hour if current else None):
        return answer.model_copy(update={"repeated": True}), None
    if current is None and priced_agents >= MOST_PRICES:
        message = f"{MOST_PRICES} agents have prices: forget one that is not needed any more"
        raise ManifestRefused(Refused(error="exhausted", message=message, field="agent"))
    fact = AgentPriced(agent=command.agent, dollars_per_hour=dollars, set_by=set_by)
    return answer, fact


def _check(manifest: Manifest, frameworks: Collection[str]) -> None:
    """Raise ManifestRefused for a manifest with a fault; `frameworks` are spelt right.

    So are defaults of a scenario that would have every request for the scenario refused.
    """
    fault = next(faults_in(manifest, frameworks), None)
    if fault is not None:
        raise ManifestRefused(_invalid(f"manifest.{fault.field}", fault.found, fault.allowed))
    if not isinstance(manifest, ScenarioManifest) or manifest.name not in BUILT_IN:
        return
    error = bad_parameter(BUILT_IN[manifest.name], manifest.parameters)
    if error is None:
        return
    field = f"manifest.parameters.{error.field}"
    refused = _invalid(field, str(error.actual), error.allowed)
    if isinstance(error, UnknownParameter):
        problem = f"found {refused.found!r}, but there is no such parameter"
        message = f"{field}: {problem}; known parameters: {error.allowed}"
        refused = refused.model_copy(update={"message": message})
    raise ManifestRefused(refused) from error


def bad_parameter(scenario: Scenario, parameters: Mapping[str, Any]) -> InvalidParameter | None:
    """Return the error of a `scenario` that can't use the `parameters`; None if it can.

    A load with more than CHECKED_QUERIES queries is checked as one with so many. If that one has an
    error, which may come from the smaller number, the load itself is made.
    """
    error: InvalidParameter | None = None
    for load in (shortened(parameters, CHECKED_QUERIES), parameters):
        try:
            scenario(load, 1, 1)
        except InvalidParameter as invalid:
            error = invalid
        else:
            return None
    return error


def _invalid(field: str, actual: str, allowed: str) -> Refused:
    message = f"{field}: found {actual!r}, allowed: {allowed}"
    return Refused(error="invalid", message=message, field=field, found=actual, allowed=allowed)


def decide_withdraw(
    current: Manifest | None,
    command: WithdrawManifest,
    names: tuple[str, ...],
    withdrawn_by: str = "",
) -> tuple[CatalogChanged, ManifestWithdrawn]:
    """Return the answer to `withdraw` and the fact that makes it true. Raises ManifestRefused.

    `current` is the manifest in the catalog that `command` names; `names` are all manifests of its
    kind, for the error about a misspelt name; `withdrawn_by` is who asks.
    """
    if current is None:
        raise ManifestRefused(
            Refused(
                error="unknown",
                message=f"no {command.kind} {command.name} {command.version} in the catalog",
                field="name",
                found=f"{command.name} {command.version}",
                allowed=", ".join(names),
            )
        )
    answer = CatalogChanged(kind=command.kind, name=command.name, version=command.version)
    fact = ManifestWithdrawn(
        kind=command.kind,
        name=command.name,
        version=command.version,
        withdrawn_by=withdrawn_by,
    )
    return answer, fact


def names_of(state: RegistryState, kind: str) -> tuple[str, ...]:
    """Return `name version` of every manifest of a kind, sorted."""
    manifests = (manifest for manifest in state.manifests.values() if manifest.kind == kind)
    return tuple(sorted(f"{manifest.name} {manifest.version}" for manifest in manifests))


def decide_lost(
    state: RegistryState, leases: Mapping[str, Lease], revisions: Mapping[str, int]
) -> Iterator[AgentLost]:
    """Yield the loss of each agent that is live in the catalog but has no lease.

    The lease must be of the same incarnation. `leases` are the current ones by agent, `revisions`
    the last revision of each lease, also of missing ones. `state` is the catalog's.
    """
    for agent, status in state.agents.items():
        lease = leases.get(agent)
        incarnation = status.announcement.incarnation
        if status.state == "live" and (lease is None or lease.incarnation != incarnation):
            revision = revisions.get(agent, 0)
            yield AgentLost(agent=agent, incarnation=incarnation, revision=revision)


def decide_back(state: RegistryState, leases: Mapping[str, Lease]) -> Iterator[AgentAnnounced]:
    """Yield agents that count as lost but have their lease: a server was away, not the agent."""
    for agent, status in state.agents.items():
        lease = leases.get(agent)
        announcement = status.announcement
        if status.state == "lost" and lease and lease.incarnation == announcement.incarnation:
            yield AgentAnnounced(agent=agent, announcement=announcement)
