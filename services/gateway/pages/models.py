"""The catalog's models: those that fit a search, and one manifest whole."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, urlencode

import yaml

from mlscope.client.quantities import counted, shown
from mlscope.manifests.figures import Figures, figures_of
from mlscope.manifests.variants import frameworks_of
from schemas.manifest import ModelManifest
from services.gateway.pages.markup import Markup, element
from services.gateway.pages.plain import page, pairs, search_form

ON_A_PAGE = 100

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
"""What models may be sorted by: names upwards, numbers downwards."""


@dataclass(frozen=True, slots=True)
class Search:
    """What is sought: words anywhere, a task, a framework; sorted how; which page, from 1."""

    words: str = ""
    task: str = ""
    framework: str = ""
    sort: str = "name"
    page: int = 1

    def address(self, **changes: Any) -> str:
        """Return the address of this search with changes."""
        now = {"q": self.words, "task": self.task, "framework": self.framework, "sort": self.sort}
        told = {**now, "page": self.page, **changes}
        plain = {"sort": "name", "page": 1}
        query = {k: v for k, v in told.items() if v and v != plain.get(k)}
        return f"/models?{urlencode(query)}" if query else "/models"


def fitting(models: Iterable[ModelManifest], search: Search) -> list[ModelManifest]:
    """Return the models that hold every word, in the search's order; hidden ones never."""
    words = search.words.casefold().split()
    found = [
        model
        for model in models
        if not model.hidden
        and search.task in ("", model.task)
        and search.framework in ("", *(need.name for need in frameworks_of(model)))
        and all(word in _told(model) for word in words)
    ]
    by_name = sorted(found, key=lambda model: (model.name, model.version))
    return sorted(by_name, key=lambda model: _rank(model, search.sort))


def _told(model: ModelManifest) -> str:
    parts = (model.name, model.task, model.description, model.license, *_frameworks(model))
    return " ".join((*parts, *map(str, model.attributes.values()))).casefold()


def _rank(model: ModelManifest, sort: str) -> tuple[bool, float | str]:
    """Return a place in the order; what is not known comes last."""
    figures = figures_of(model)
    numbers = {
        "accuracy": figures.accuracy,
        "parameters": figures.parameters,
        "size": figures.size_bytes,
    }
    if sort in numbers:
        number = numbers[sort]
        return number is None, -(number or 0)
    texts = {"task": model.task, "framework": model.framework.name}
    return False, texts.get(sort, "")


def models_page(models: Sequence[ModelManifest], search: Search) -> str:
    """Return the models that fit, a hundred a page."""
    found = fitting(models, search)
    first = (search.page - 1) * ON_A_PAGE
    part = found[first : first + ON_A_PAGE]
    heads = (_head(name, text, search) for name, text in _HEADS.items())
    rows = element("tbody", *(_row(model) for model in part))
    table = element("table", element("thead", element("tr", *heads)), rows)
    place = f"{first + 1} to {first + len(part)} of {len(found)}" if part else "none that fits"
    return page(
        "Models",
        element("h1", "Models"),
        _form(models, search),
        element("p", f"{place}. Figures are their sources', not measured here.", class_="soft"),
        element("div", table, class_="wide models") if part else "",
        _pages(len(found), search),
    )


def _form(models: Sequence[ModelManifest], search: Search) -> Markup:
    shown_models = [model for model in models if not model.hidden]
    tasks = sorted({model.task for model in shown_models} - {""})
    frameworks = sorted({need.name for model in shown_models for need in frameworks_of(model)})
    return search_form(
        "/models",
        {"q": ("Words", search.words)},
        {
            "task": ("Task", search.task, tasks),
            "framework": ("Framework", search.framework, frameworks),
        },
    )


def _head(name: str, text: str, search: Search) -> Markup:
    link = element("a", text, href=search.address(sort=name, page=1))
    is_sorted = "descending" if name in _NUMBERS else "ascending"
    return element(
        "th",
        link,
        class_="number" if name in _NUMBERS else None,
        aria_sort=is_sorted if name == search.sort else None,
    )


def _row(model: ModelManifest) -> Markup:
    figures = figures_of(model)
    link = element("a", model.name, href=address_of(model))
    size = shown(figures.size_bytes, "By")
    return element(
        "tr",
        element("td", link, element("small", model.version, class_="beside")),
        element("td", model.task),
        element("td", ", ".join(_frameworks(model))),
        element("td", *_accuracy(model, figures), class_="number"),
        element("td", counted(figures.parameters), class_="number"),
        element("td", f"≈ {size}" if figures.is_size_guessed else size, class_="number"),
    )


def _frameworks(model: ModelManifest) -> list[str]:
    return [need.name for need in frameworks_of(model)]


def _accuracy(model: ModelManifest, figures: Figures) -> tuple[str, Markup | str]:
    if figures.accuracy is None:
        is_random = model.model.weights == "random"
        return shown(None), element("small", "random weights") if is_random else ""
    return f"{figures.accuracy:.4g}", element("small", figures.source())


def _pages(count: int, search: Search) -> Markup | str:
    last = -(-count // ON_A_PAGE)
    if last < 2:
        return ""
    links = [
        element("a", text, href=search.address(page=number))
        for text, number in (("Before", search.page - 1), ("Next", search.page + 1))
        if 1 <= number <= last
    ]
    told = f"Page {search.page} of {last} "
    return element("p", told, *((link, " ") for link in links), class_="pages")


def address_of(model: ModelManifest) -> str:
    """Return the address of a model's page."""
    return f"/models/{quote(model.name, safe='')}/{quote(model.version, safe='')}"


def model_page(model: ModelManifest) -> str:
    """Return one model: what it is, how to run it, its manifest as published."""
    figures = figures_of(model)
    manifest = yaml.safe_dump(
        {"kind": model.kind, **model.model_dump(mode="json", exclude_defaults=True)},
        sort_keys=False,
        allow_unicode=True,
        width=100,
    )
    name = quote(model.name, safe="")
    accuracy, where = _accuracy(model, figures)
    run = f"mlscope run {model.name}:{model.version}"
    return page(
        f"{model.name} {model.version}",
        element("h1", f"{model.name} {model.version}"),
        element("p", model.description) if model.description else "",
        pairs(
            ("Task", model.task),
            ("Frameworks", ", ".join(f"{n.name} {n.version}" for n in frameworks_of(model))),
            ("Accuracy", (accuracy, where)),
            ("Parameters", counted(figures.parameters)),
            ("Licence", model.license),
            ("Run it", element("code", run)),
            ("History", element("a", "its evaluations", href=f"/evaluations?model={name}")),
        ),
        element("h2", "Manifest"),
        element("p", element("a", "as JSON", href=f"/api/models/{name}")),
        element("pre", manifest),
    )
