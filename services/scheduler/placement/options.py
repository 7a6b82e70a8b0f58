"""The options of a request, against those that agents' predictors take. Pure."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from mlscope.manifests.verifying import OPTION, RANDOM, UNVERIFIED
from schemas.agent import Runtime
from schemas.encoding.faults import abbreviate
from schemas.manifest import ModelManifest
from schemas.status import AgentStatus
from services.scheduler.errors import unknown
from services.scheduler.placement.naming import is_same
from services.scheduler.placement.resolving import similar_names


def untaken_options(
    runtime: Runtime, model: ModelManifest, options: Mapping[str, Any]
) -> Iterator[str]:
    """Yield which `options` for a model a runtime's predictor does not take, if it says so."""
    names = runtime.options
    for name in () if names is None else _unknown(options, model, names):
        proposed = similar_names(name, names or ()) or names or ("none",)
        yield f"{runtime.framework} takes no option {abbreviate(name)}: {', '.join(proposed)}"


def check_options(
    options: Mapping[str, Any], variants: Sequence[ModelManifest], agents: Sequence[AgentStatus]
) -> None:
    """Raise RequestRefused for an option of a request that none of the `agents` can take.

    `variants` are those of its model. A predictor that does not say which options it takes, as
    those of release 0.1, may take any, and so may one of a framework that no agent has.
    """
    taken: set[str] = set()
    for variant in variants:
        known = [
            runtime.options
            for status in agents
            for runtime in status.announcement.runtimes
            if is_same(runtime.framework, variant.framework.name)
        ]
        if not known or None in known:
            return
        taken.update(*filter(None, known))
    untaken = [set(_unknown(options, variant, taken)) for variant in variants]
    for name in filter(set.intersection(*untaken).__contains__, options):
        raise unknown(f"options.{name}", name, similar_names(name, taken), taken)


def _unknown(
    options: Mapping[str, Any], model: ModelManifest, names: Collection[str]
) -> Iterator[str]:
    """Yield the `options` beside `names`, and beside a choice of weights that agents make."""
    choice = options.get(OPTION)
    is_choice = choice == UNVERIFIED or (choice == RANDOM and bool(model.model.builder))
    for name in options:
        if name not in names and not (name == OPTION and is_choice):
            yield name
