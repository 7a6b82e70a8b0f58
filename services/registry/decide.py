"""What follows from a wish or a lapsed lease, given the catalog. Pure."""

from collections.abc import Iterator, Mapping

from mlscope.load.errors import InvalidParameter
from mlscope.load.parameters import MOST_QUERIES
from mlscope.load.scenarios import BUILT_IN
from mlscope.manifests.checking import faults_in
from schemas.agent import AgentAnnounced, AgentLost, Lease
from schemas.manifest import (
    Manifest,
    ManifestPublished,
    ManifestWithdrawn,
    ScenarioManifest,
)
from schemas.request import CatalogChanged, Refused, WithdrawManifest
from schemas.subjects import manifest_key
from services.registry.errors import ManifestRefused
from services.registry.state import RegistryState, digest_of


def decide_publish(
    known: Manifest | None, manifest: Manifest, withdrawn: str = ""
) -> tuple[CatalogChanged, ManifestPublished | None]:
    """Return the answer to `publish` and the fact that makes it true, None if it is already.

    `known` is what the catalog holds under this kind, name and version, `withdrawn` the digest of
    what it held when that was withdrawn: a version stands for one text. Raises ManifestRefused.
    """
    _check(manifest)
    digest = digest_of(manifest)
    answer = CatalogChanged(
        kind=manifest.kind, name=manifest.name, version=manifest.version, digest=digest
    )
    before = withdrawn if known is None else digest_of(known)
    if before not in ("", digest):
        how = "was withdrawn" if known is None else "is known"
        raise ManifestRefused(_conflict(manifest, digest, before, how))
    if known is None:
        return answer, ManifestPublished(manifest=manifest, digest=digest)
    return answer.model_copy(update={"repeated": True}), None


def _conflict(manifest: Manifest, digest: str, before: str, how: str) -> Refused:
    return Refused(
        error="conflict",
        message=(
            f"{manifest.kind} {manifest.name} {manifest.version} {how} with another text; "
            "publish the change under a new version"
        ),
        field="manifest.version",
        found=f"sha256 {digest}",
        allowed=f"sha256 {before}, or a version that is not in use",
    )


def _check(manifest: Manifest) -> None:
    fault = next(faults_in(manifest), None)
    if fault is not None:
        raise ManifestRefused(_invalid(f"manifest.{fault.field}", fault.found, fault.allowed))
    if isinstance(manifest, ScenarioManifest) and manifest.name in BUILT_IN:
        _check_defaults(manifest)


def _check_defaults(manifest: ScenarioManifest) -> None:
    """Raise ManifestRefused for defaults that would have every request for the scenario refused."""
    parameters = dict(manifest.parameters)
    if isinstance(queries := parameters.get("queries"), int) and 0 < queries <= MOST_QUERIES:
        # Whatever their number, one query is enough to have the others checked.
        parameters["queries"] = 1
    try:
        BUILT_IN[manifest.name](parameters, 1, 1)
    except InvalidParameter as error:
        field = f"manifest.parameters.{error.field}"
        raise ManifestRefused(_invalid(field, str(error.found), error.allowed)) from error


def _invalid(field: str, found: str, allowed: str) -> Refused:
    message = f"{field}: found {found!r}, allowed: {allowed}"
    return Refused(error="invalid", message=message, field=field, found=found, allowed=allowed)


def decide_withdraw(
    known: Manifest | None, wish: WithdrawManifest, names: tuple[str, ...]
) -> tuple[CatalogChanged, ManifestWithdrawn]:
    """Return the answer to `withdraw` and the fact that makes it true. Raises ManifestRefused.

    `names` lists what the catalog holds of that kind, for whoever misspelt it.
    """
    if known is None:
        raise ManifestRefused(
            Refused(
                error="unknown",
                message=f"no {wish.kind} {wish.name} {wish.version} in the catalog",
                field="name",
                found=f"{wish.name} {wish.version}",
                allowed=", ".join(names),
            )
        )
    answer = CatalogChanged(kind=wish.kind, name=wish.name, version=wish.version)
    return answer, ManifestWithdrawn(kind=wish.kind, name=wish.name, version=wish.version)


def manifest_of(state: RegistryState, kind: str, name: str, version: str) -> Manifest | None:
    """Return what the catalog holds under a kind, name and version."""
    return state.manifests.get(manifest_key(kind, name, version))


def names_of(state: RegistryState, kind: str) -> tuple[str, ...]:
    """Return `name version` of everything of a kind, sorted."""
    found = (each for each in state.manifests.values() if each.kind == kind)
    return tuple(sorted(f"{each.name} {each.version}" for each in found))


def decide_lost(
    state: RegistryState, leases: Mapping[str, Lease], revisions: Mapping[str, int]
) -> Iterator[AgentLost]:
    """Yield who is lost: live in the catalog, and no lease of that start is held.

    `leases` are held now, by agent; `revisions` are the last ones seen, held or not.
    """
    for agent, status in state.agents.items():
        lease = leases.get(agent)
        incarnation = status.announcement.incarnation
        if status.state == "live" and (lease is None or lease.incarnation != incarnation):
            revision = revisions.get(agent, 0)
            yield AgentLost(agent=agent, incarnation=incarnation, revision=revision)


def decide_back(state: RegistryState, leases: Mapping[str, Lease]) -> Iterator[AgentAnnounced]:
    """Yield who was taken as lost and holds its lease all the same: a server was away, not it."""
    for agent, status in state.agents.items():
        lease = leases.get(agent)
        announcement = status.announcement
        if status.state == "lost" and lease and lease.incarnation == announcement.incarnation:
            yield AgentAnnounced(agent=agent, announcement=announcement)
