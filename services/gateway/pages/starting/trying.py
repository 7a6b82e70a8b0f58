"""The page that tries models: files or a text in, answers of several models side by side. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from schemas.manifest import ModelManifest


@dataclass(frozen=True, slots=True)
class TryView:
    """The chosen model, the others of its task, and the kind of its first input, as image."""

    model: str
    task: str
    kind: str
    others: Sequence[str]
    most_files: int
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
    models: Sequence[ModelManifest], name: str, most_files: int, runnable: Sequence[str]
) -> TryView | None:
    """Return the page that tries the model `name`, None if none of `models` has that name.

    `most_files` can be tried at once; `runnable` are the frameworks that an agent has.
    """
    bare = name.partition(":")[0]
    chosen = next((model for model in models if model.name == bare), None)
    if chosen is None:
        return None
    others = {
        model.name
        for model in models
        if model.task == chosen.task
        and model.name != bare
        and not model.hidden
        and model.framework.name in runnable
        and [port.type for port in model.inputs] == [port.type for port in chosen.inputs]
    }
    kind = chosen.inputs[0].type if chosen.inputs else ""
    return TryView(name, chosen.task, kind, sorted(others), most_files)
