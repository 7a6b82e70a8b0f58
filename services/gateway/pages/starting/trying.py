"""The page that tries models: files or a text in, answers of several models side by side. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from mlscope.manifests.variants import frameworks_of
from schemas.status import Catalog
from services.gateway.pages.starting.sample_choice import SampleChoice, sample_choices


@dataclass(frozen=True, slots=True)
class TryView:
    """The chosen model, the others of its task, and the kind of its first input, as image."""

    model: str
    task: str
    kind: str
    other_models: Sequence[str]
    most_files: int
    samples: Sequence[SampleChoice]
    agents: Sequence[str]
    template: ClassVar[str] = "try.html"

    @property
    def title(self) -> str:
        """The document's title."""
        return f"Try {self.model}"

    @property
    def accepts(self) -> str:
        """The media types that the page's file field offers."""
        return {"image": "image/*", "audio": "audio/*", "text": "text/*,.txt"}.get(self.kind, "")


def try_view(
    catalog: Catalog, name: str, most_files: int, with_pictures: frozenset[str] = frozenset()
) -> TryView | None:
    """Return the page that tries the model `name`, None if the `catalog` has none of that name.

    `most_files` can be tried at once; the gateway has the files of the samples `with_pictures`.
    """
    models = catalog.models
    live = [agent.announcement for agent in catalog.agents if agent.state == "live"]
    runnable = {runtime.framework for agent in live for runtime in agent.runtimes}
    bare = name.partition(":")[0]
    chosen = next((model for model in models if model.name == bare), None)
    if chosen is None:
        return None
    other_models = {
        model.name
        for model in models
        if model.task == chosen.task
        and model.name != bare
        and not model.hidden
        and model.framework.name in runnable
        and [port.type for port in model.inputs] == [port.type for port in chosen.inputs]
    }
    kind = chosen.inputs[0].type if chosen.inputs else ""
    frameworks = {need.name for need in frameworks_of(chosen)}
    hosts = [
        agent.agent
        for agent in live
        if frameworks & {runtime.framework for runtime in agent.runtimes}
    ]
    return TryView(
        model=name,
        task=chosen.task,
        kind=kind,
        other_models=sorted(other_models),
        most_files=most_files,
        samples=sample_choices(catalog.datasets, kind, with_pictures),
        agents=sorted(hosts),
    )
