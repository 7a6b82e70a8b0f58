"""The pages of the catalog's models: those that match a search, and one manifest. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from mlscope.manifests.figures import figures_of
from mlscope.manifests.variants import frameworks_of
from mlscope.quantities import counted, shown
from schemas.manifest import ModelManifest
from services.gateway.pages.frame import page, pairs, search_form
from services.gateway.pages.markup import Markup, element

PAGE_SIZE = 100

_HEADS: Mapping[str, str] = MappingProxyType(
    {
        "name": "Model",
        "task": "Task",
        "framework": "Frameworks",
        "accuracy": "Accuracy",
        "parameters": "Parameters",
        "size": "Size",
    }
)
_NUMBERS = ("accuracy", "parameters", "size")
SORTS = tuple(_HEADS)
"""Sort keys of models: names ascending, numbers descending."""


@dataclass(frozen=True, slots=True)
class Search:
    """Terms to find anywhere, a task, a framework, a sort key, and a page from 1."""

    terms: str = ""
    task: str = ""
    framework: str = ""
    sort: str = "name"
    page: int = 1

    def address(self, **changes: Any) -> str:
        """Return the address of this search with changed parameters."""
        parameters = {
            "q": self.terms,
            "task": self.task,
            "framework": self.framework,
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
    terms = search.terms.casefold().split()

    def matches(model: ModelManifest) -> bool:
        frameworks = _framework_names(model)
        if search.task not in ("", model.task) or search.framework not in ("", *frameworks):
            return False
        texts = (model.name, model.task, model.description, model.license, *frameworks)
        text = " ".join((*texts, *map(str, model.attributes.values()))).casefold()
        return all(term in text for term in terms)

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


def models_page(models: Sequence[ModelManifest], search: Search) -> str:
    """Return a page of the models that match `search`, at most `PAGE_SIZE`."""
    matching = matching_models(models, search)
    first = (search.page - 1) * PAGE_SIZE
    shown_models = matching[first : first + PAGE_SIZE]
    visible = [model for model in models if not model.hidden]
    tasks = sorted({model.task for model in visible} - {""})
    frameworks = sorted(set(chain.from_iterable(map(_framework_names, visible))))
    form = search_form(
        "/models",
        {"q": ("Search for", search.terms)},
        {
            "task": ("Task", search.task, tasks),
            "framework": ("Framework", search.framework, frameworks),
        },
    )
    heads = (_head(name, text, search) for name, text in _HEADS.items())
    rows = element("tbody", *(_row(model) for model in shown_models))
    table = element("table", element("thead", element("tr", *heads)), rows)
    last = first + len(shown_models)
    count = f"{first + 1} to {last} of {len(matching)}" if shown_models else "No model matches"
    note = f"{count}. Figures are quoted from their sources, not measured by mlscope."
    return page(
        "Models",
        element("h1", "Models"),
        form,
        element("p", note, class_="soft"),
        element("div", table, class_="wide models") if shown_models else "",
        _page_links(len(matching), search),
    )


def _head(name: str, text: str, search: Search) -> Markup:
    link = element("a", text, href=search.address(sort=name, page=1))
    order = "descending" if name in _NUMBERS else "ascending"
    return element(
        "th",
        link,
        class_="number" if name in _NUMBERS else None,
        aria_sort=order if name == search.sort else None,
    )


def _row(model: ModelManifest) -> Markup:
    figures = figures_of(model)
    link = element("a", model.name, href=address_of(model))
    size = shown(figures.size_bytes, "By")
    return element(
        "tr",
        element("td", link, element("small", model.version, class_="beside")),
        element("td", model.task),
        element("td", ", ".join(_framework_names(model))),
        element("td", *_accuracy(model), class_="number"),
        element("td", counted(figures.parameters), class_="number"),
        element("td", f"≈ {size}" if figures.is_size_guessed else size, class_="number"),
    )


def _framework_names(model: ModelManifest) -> list[str]:
    return [need.name for need in frameworks_of(model)]


def _accuracy(model: ModelManifest) -> tuple[str, Markup | str]:
    """Return the accuracy and its source; for random weights that there is none."""
    figures = figures_of(model)
    if figures.accuracy is None:
        is_random = model.model.weights == "random"
        return shown(None), element("small", "random weights") if is_random else ""
    return f"{figures.accuracy:.4g}", element("small", figures.source())


def _page_links(count: int, search: Search) -> Markup | str:
    last = -(-count // PAGE_SIZE)
    if last < 2:
        return ""
    links = [
        element("a", text, href=search.address(page=number))
        for text, number in (("Previous", search.page - 1), ("Next", search.page + 1))
        if 1 <= number <= last
    ]
    position = f"Page {search.page} of {last} "
    return element("p", position, *((link, " ") for link in links), class_="pages")


def address_of(model: ModelManifest) -> str:
    """Return the address of a model's page."""
    return f"/models/{quote(model.name, safe='')}/{quote(model.version, safe='')}"


def model_page(model: ModelManifest) -> str:
    """Return the page of one model: its properties, how to run it, and its manifest."""
    manifest = yaml.safe_dump(
        {"kind": model.kind, **model.model_dump(mode="json", exclude_defaults=True)},
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )
    name = quote(model.name, safe="")
    frameworks = ", ".join(f"{need.name} {need.version}" for need in frameworks_of(model))
    evaluations = element("a", "evaluations of this model", href=f"/evaluations?model={name}")
    return page(
        f"{model.name} {model.version}",
        element("h1", f"{model.name} {model.version}"),
        element("p", model.description) if model.description else "",
        pairs(
            ("Task", model.task),
            ("Frameworks", frameworks),
            ("Accuracy", _accuracy(model)),
            ("Parameters", counted(figures_of(model).parameters)),
            ("Licence", model.license),
            ("Run it", element("code", f"mlscope run {model.name}:{model.version}")),
            ("Evaluations", evaluations),
        ),
        element("h2", "Manifest"),
        element("p", element("a", "as JSON", href=f"/api/models/{name}")),
        element("pre", manifest),
    )
