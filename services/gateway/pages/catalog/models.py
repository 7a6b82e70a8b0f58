"""The pages of the catalog's models: those that match a search, and one manifest. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any, ClassVar
from urllib.parse import quote, urlencode

import yaml

from mlscope.manifests.figures import accuracy_text, figures_of
from mlscope.manifests.fitting import Running
from mlscope.manifests.variants import frameworks_of
from mlscope.quantities import counted, shown
from schemas.manifest import ModelManifest
from schemas.request import Refused
from schemas.status import EvaluationStatus, Matched
from services.gateway.pages.analysis import CHART
from services.gateway.pages.catalog.layer_tree import LayerTree
from services.gateway.pages.evaluations import PLAIN_HEADS, EvaluationRow, Head, evaluation_rows
from services.gateway.pages.forms import Choice, Field, SearchForm
from services.gateway.pages.searching import has_terms, terms_of

PAGE_SIZE = 100
RUNNABLE = "now"
"""The value of `runs` for models that an agent can open as it is."""

_HEADS: Mapping[str, str] = MappingProxyType(
    {
        "name": "Model",
        "task": "Task",
        "framework": "Frameworks",
        "runs": "Runs on",
        "accuracy": "Accuracy",
        "parameters": "Parameters",
        "size": "Size",
    }
)
_NUMBERS = ("accuracy", "parameters", "size")
_UNSORTED = ("runs",)
SORTS = tuple(name for name in _HEADS if name not in _UNSORTED)
"""Sort keys of models: names ascending, numbers descending."""


@dataclass(frozen=True, slots=True)
class Search:
    """Terms to find anywhere, a task, a framework, a sort key, a page from 1, where it runs."""

    terms: str = ""
    task: str = ""
    framework: str = ""
    sort: str = "name"
    page: int = 1
    #: `RUNNABLE`: only models that an agent can open now
    runs: str = ""

    def address(self, **changes: Any) -> str:
        """Return the address of this search with changed parameters."""
        parameters = {
            "q": self.terms,
            "task": self.task,
            "framework": self.framework,
            "runs": self.runs,
            "sort": self.sort,
            "page": self.page,
            **changes,
        }
        defaults = {"sort": "name", "page": 1}
        query = {
            name: value
            for name, value in parameters.items()
            if value and value != defaults.get(name)
        }
        return f"/models?{urlencode(query)}" if query else "/models"


def matching_models(models: Iterable[ModelManifest], search: Search) -> list[ModelManifest]:
    """Return the models that contain every term, in the order of `search`; never hidden ones."""
    terms = terms_of(search.terms)

    def matches(model: ModelManifest) -> bool:
        frameworks = _framework_names(model)
        if search.task not in ("", model.task) or search.framework not in ("", *frameworks):
            return False
        texts = (model.name, model.task, model.description, model.license, *frameworks)
        return has_terms((*texts, *map(str, model.attributes.values())), terms)

    def rank(model: ModelManifest) -> tuple[bool, float | str]:
        """Return the sort key; models without a number come last."""
        figures = figures_of(model)
        numbers = {
            "accuracy": figures.accuracy,
            "parameters": figures.parameters,
            "size": figures.size_bytes,
        }
        if search.sort in numbers:
            number = numbers[search.sort]
            return number is None, -(number or 0)
        texts = {"task": model.task, "framework": model.framework.name}
        return False, texts.get(search.sort, "")

    matching = [model for model in models if not model.hidden and matches(model)]
    by_name = sorted(matching, key=lambda model: (model.name, model.version))
    return sorted(by_name, key=rank)


@dataclass(frozen=True, slots=True)
class SortHead:
    """A column's heading: its name, and the address of the list sorted by it, '' without one."""

    name: str
    address: str
    is_number: bool
    order: str


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A model in the list; figures as text, `accuracy_note` beside the accuracy."""

    manifest: ModelManifest
    address: str
    frameworks: str
    accuracy: str
    accuracy_note: str
    parameters: str
    size: str
    #: where it runs now; None where that is not asked
    running: Running | None = None


@dataclass(frozen=True, slots=True)
class ModelsView:
    """A page of models; `position` and `links` lead to the other pages, if there are any."""

    form: SearchForm
    note: str
    heads: Sequence[SortHead]
    rows: Sequence[ModelRow]
    position: str
    links: Sequence[tuple[str, str]]
    template: ClassVar[str] = "models.html"
    title: ClassVar[str] = "Models"


def models_view(
    models: Sequence[ModelManifest], search: Search, running: Sequence[Running]
) -> ModelsView:
    """Return a page of the models that match `search`, at most `PAGE_SIZE`.

    `running` says where each of the models runs, in their order.
    """
    matching = matching_models(models, search)
    where = {id(model): own for model, own in zip(models, running, strict=True)}
    if search.runs == RUNNABLE:
        matching = [model for model in matching if where[id(model)].agents]
    first = (search.page - 1) * PAGE_SIZE
    shown_models = matching[first : first + PAGE_SIZE]
    visible = [model for model in models if not model.hidden]
    tasks = sorted({model.task for model in visible} - {""})
    frameworks = sorted(set(chain.from_iterable(map(_framework_names, visible))))
    choices = [
        Choice("task", "Task", search.task, tasks),
        Choice("framework", "Framework", search.framework, frameworks),
        Choice("runs", "Runs", search.runs, (RUNNABLE,)),
    ]
    last = first + len(shown_models)
    count = f"{first + 1} to {last} of {len(matching)}" if shown_models else "No model matches"
    last_page = -(-len(matching) // PAGE_SIZE)
    neighbours = (("Previous", search.page - 1), ("Next", search.page + 1))
    return ModelsView(
        form=SearchForm("/models", [Field("q", "Search for", search.terms)], choices),
        note=f"{count}. Figures are quoted from their sources, not measured by mlscope.",
        heads=[_head(name, text, search) for name, text in _HEADS.items()],
        rows=[_row(model, where[id(model)]) for model in shown_models],
        position=f"Page {search.page} of {last_page}" if last_page > 1 else "",
        links=[
            (text, search.address(page=number))
            for text, number in neighbours
            if 1 <= number <= last_page
        ],
    )


def _head(name: str, text: str, search: Search) -> SortHead:
    is_number = name in _NUMBERS
    order = "descending" if is_number else "ascending"
    address = "" if name in _UNSORTED else search.address(sort=name, page=1)
    return SortHead(text, address, is_number, order if name == search.sort else "")


def _row(model: ModelManifest, running: Running | None = None) -> ModelRow:
    figures = figures_of(model)
    size = shown(figures.size_bytes, "By")
    accuracy, note = shown(None), ""
    if figures.accuracy is not None:
        accuracy = accuracy_text(figures.accuracy, figures.metric)
        note = figures.source()
    elif model.model.weights == "random":
        note = "random weights"
    return ModelRow(
        manifest=model,
        address=address_of(model),
        frameworks=", ".join(_framework_names(model)),
        accuracy=accuracy,
        accuracy_note=note,
        parameters=counted(figures.parameters),
        size=f"≈ {size}" if figures.is_size_guessed else size,
        running=running,
    )


def _framework_names(model: ModelManifest) -> list[str]:
    return [need.name for need in frameworks_of(model)]


def address_of(model: ModelManifest) -> str:
    """Return the address of a model's page."""
    return f"/models/{quote(model.name, safe='')}/{quote(model.version, safe='')}"


@dataclass(frozen=True, slots=True)
class ModelView:
    """One model: its properties, how to run it, and its manifest."""

    row: ModelRow
    frameworks: str
    manifest: str
    matched: Matched | Refused | None
    history: Sequence[EvaluationRow]
    #: the layers of its newest evaluation that traced them
    tree: LayerTree | None
    #: where its measurements are drawn over time
    chart: ClassVar[str] = CHART
    heads: ClassVar[Sequence[Head]] = PLAIN_HEADS
    template: ClassVar[str] = "model.html"

    @property
    def model(self) -> ModelManifest:
        """The manifest itself."""
        return self.row.manifest

    @property
    def placement(self) -> Matched | None:
        """The agents that fit and those that do not, if the scheduler could tell."""
        return self.matched if isinstance(self.matched, Matched) else None

    @property
    def refusal(self) -> Refused | None:
        """Why the scheduler could not tell, if so."""
        return self.matched if isinstance(self.matched, Refused) else None

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.model.name} {self.model.version}"


def model_view(
    model: ModelManifest,
    matched: Matched | Refused | None = None,
    history: Sequence[EvaluationStatus] = (),
    tree: LayerTree | None = None,
) -> ModelView:
    """Return the page of one `model`.

    `matched`: the agents that could run it now and why others cannot, or why that is not known;
    `history`: its latest evaluations; `tree`: its layers, None where none of these traced them.
    """
    manifest = yaml.safe_dump(
        {"kind": model.kind, **model.model_dump(mode="json", exclude_defaults=True)},
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )
    frameworks = ", ".join(f"{need.name} {need.version}" for need in frameworks_of(model))
    return ModelView(_row(model), frameworks, manifest, matched, evaluation_rows(history), tree)
