"""Manifests that come with a request: none passes as the published one that it is called. Pure."""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import TypeVar

from mlscope.manifests.constraints import version_order
from mlscope.manifests.digests import digest_of
from mlscope.manifests.naming import LONGEST_NAME
from mlscope.manifests.variants import variants_of
from schemas.manifest import DatasetManifest, ModelManifest
from schemas.request import Evaluate
from schemas.status import Catalog

R = TypeVar("R", bound=Evaluate)
M = TypeVar("M", ModelManifest, DatasetManifest)
_DIGITS = 12
_OWN_VERSION = re.compile(rf"(?P<version>.*)(?P<mark>[+.])[0-9a-f]{{{_DIGITS}}}", re.DOTALL)
_UNSEEN = ("C", "M", "Z")
"""Categories of characters that change little of how a name looks: marks, spaces, controls."""


def with_own_versions(request: R, catalog: Catalog) -> R:
    """Return a request in which no manifest is called as another one of the `catalog`.

    A model or dataset that came with it, with the name and version of a published one but with
    other contents, gets a version of its own, as 1.0.0+4f8a…: lists, pages and explorations show
    its figures under that. The published one, or a variant of it, keeps its version.
    """
    changes: dict[str, ModelManifest | DatasetManifest] = {}
    if isinstance(request.model, ModelManifest):
        changes["model"] = _apart(request.model, catalog.models)
    if isinstance(request.dataset, DatasetManifest):
        changes["dataset"] = _apart(request.dataset, catalog.datasets)
    sent = {"model": request.model, "dataset": request.dataset}
    if all(manifest is sent[field] for field, manifest in changes.items()):
        return request
    return request.model_copy(update=changes)


def as_recorded(request: Evaluate, recorded: Evaluate | None) -> Evaluate:
    """Return a request, as it was sent, with the own versions that a `recorded` one has of it.

    So a repeated request equals the one recorded, whatever was published or withdrawn in between.
    """
    if recorded is None:
        return request
    changes: dict[str, ModelManifest | DatasetManifest] = {}
    if isinstance(request.model, ModelManifest) and isinstance(recorded.model, ModelManifest):
        changes["model"] = _recorded(request.model, recorded.model)
    if isinstance(request.dataset, DatasetManifest) and isinstance(
        recorded.dataset, DatasetManifest
    ):
        changes["dataset"] = _recorded(request.dataset, recorded.dataset)
    return request.model_copy(update=changes)


def sent_notes(
    request: Evaluate, model: ModelManifest, dataset: DatasetManifest
) -> tuple[str, ...]:
    """Return notes on manifests of a `request` with versions of their own, for readers of results.

    `model` and `dataset` are those that it means.
    """
    return (
        *_notes("model", model, is_sent=isinstance(request.model, ModelManifest)),
        *_notes("dataset", dataset, is_sent=isinstance(request.dataset, DatasetManifest)),
    )


def _notes(field: str, planned: M, *, is_sent: bool) -> Iterator[str]:
    """Yield the note on a manifest of a request, if it was sent and has a version of its own."""
    original = _original_of(planned) if is_sent else None
    if original is not None:
        yield (
            f"{field} {planned.name} {original.version} came with the request and is not the "
            "published one of that name and version: its results are those of "
            f"{planned.name} {planned.version}"
        )


def _apart(sent: M, published: Iterable[M]) -> M:
    """Return a manifest that was sent, with another version where its own is that of another."""
    if max(len(sent.name), len(sent.version)) > LONGEST_NAME:
        return sent  # Such a request is refused, and a character may become eighteen here.
    name = _seen(sent.name)
    others = [manifest for manifest in published if _is_called(name, sent.version, manifest)]
    if not others or any(_is_published_as(sent, manifest) for manifest in others):
        return sent
    return _with_own_version(sent, others[0].version)


def _is_called(name: str, version: str, published: M) -> bool:
    """Tell whether a manifest that was sent looks as one of the catalog, by name and version.

    Its `name` is that which a reader sees.
    """
    published_name = _seen(published.name)
    if not name.startswith(published_name):
        return False
    if name == published_name:
        return _is_same_version(version, published.version)
    # Explorations show names without versions: a name may have a version in it.
    written_version = name.removeprefix(published_name)
    return written_version[0] == ":" and _is_same_version(written_version[1:], published.version)


def _recorded(sent: M, kept: M) -> M:
    """Return a manifest as it was sent, with the own version that the one `kept` got, if any."""
    original = _original_of(kept)
    if original is None:
        return sent
    named = _with_own_version(sent, original.version)
    return named if named.version == kept.version else sent


def _is_published_as(sent: M, published: M) -> bool:
    if sent == published:
        return True
    return isinstance(published, ModelManifest) and sent in variants_of(published)


def _with_own_version(manifest: M, version: str) -> M:
    """Return a manifest with a `version` to which its digest is added, as the local part."""
    named = manifest.model_copy(update={"version": version})
    mark = "." if "+" in version else "+"
    own_version = f"{version}{mark}{digest_of(named)[:_DIGITS]}"
    return named.model_copy(update={"version": own_version})


def _original_of(manifest: M) -> M | None:
    """Return a manifest as it was before it got a version of its own; None if it has none."""
    matched = _OWN_VERSION.fullmatch(manifest.version)
    if matched is None:
        return None
    original = manifest.model_copy(update={"version": matched["version"]})
    is_own = _with_own_version(original, original.version).version == manifest.version
    return original if is_own else None


def _is_same_version(sent: str, published: str) -> bool:
    """Tell whether two versions are one number, as 1.0 and 1.0.0, or look like one."""
    return version_order(_seen(sent)) == version_order(_seen(published))


def _seen(text: str) -> str:
    """Return what a reader distinguishes of a `text`: no case, spaces, marks and compatible forms.

    A name of another alphabet may still look like it.
    """
    if text.isascii() and text.isprintable():
        return text.lower().replace(" ", "")
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    return "".join(one for one in plain if unicodedata.category(one)[0] not in _UNSEEN)
