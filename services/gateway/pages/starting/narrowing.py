"""What the catalog offers for a new evaluation: each choice narrows the others. Pure.

The counts tell what could fit; the scheduler alone knows what does, and is asked by `match`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from mlscope.counts import many
from mlscope.manifests.constraints import constraint_of, satisfies, version_order
from mlscope.manifests.errors import BadConstraint
from mlscope.manifests.figures import figures_of
from mlscope.manifests.variants import frameworks_of
from mlscope.quantities import counted
from schemas.agent import Announcement, Runtime
from schemas.manifest import DatasetManifest, FrameworkNeed, ModelManifest, ScenarioManifest
from schemas.status import Catalog
from schemas.values.framework_names import predictors_name
from services.gateway.pages.searching import has_terms, terms_of

M = TypeVar("M", ModelManifest, DatasetManifest, ScenarioManifest)

MOST_SHOWN = 40
"""Models that a page lists; a search finds the others."""
_INPUTS_OF: Mapping[str, set[str]] = {"tensor": {"tensor", "raw"}, "raw": {"tensor", "raw"}}
"""Types of inputs that a modality suits, where it is not only the one of its name."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """What a form has so far, as far as it narrows the catalog."""

    models: Sequence[str] = ()
    search: str = ""
    task: str = ""
    framework: str = ""
    device: str = ""
    agents: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Option:
    """A value to choose: its text, how many things it leaves, and what these are."""

    value: str
    count: int
    noun: str = "model"

    @property
    def text(self) -> str:
        """The value with its count."""
        return f"{self.value} ({many(self.count, self.noun)})"


@dataclass(frozen=True, slots=True)
class ModelOption:
    """A model to choose, with the number of agents that have a framework for it."""

    name: str
    task: str
    frameworks: str
    parameters: str
    agents: int
    is_chosen: bool


@dataclass(frozen=True)
class Offer:
    """The catalog under what is chosen."""

    catalog: Catalog
    chosen: Chosen

    @cached_property
    def announcements(self) -> tuple[Announcement, ...]:
        """The agents that are here now and serve every request."""
        live = (agent.announcement for agent in self.catalog.agents if agent.state == "live")
        return tuple(agent for agent in live if not agent.reserved_for)

    @cached_property
    def models(self) -> tuple[ModelManifest, ...]:
        """The newest version of each model that is not hidden, by name."""
        return tuple(newest_of(model for model in self.catalog.models if not model.hidden))

    def matching(self, *, without: str = "") -> list[ModelManifest]:
        """Return the models that the choices leave; the choice of the field `without` aside."""
        chosen = self.chosen
        terms = terms_of(chosen.search)
        task = "" if without == "task" else chosen.task
        framework = "" if without == "framework" else framework_name(chosen.framework)
        return [
            model
            for model in self.models
            if task in ("", model.task)
            and framework in ("", *(need.name.lower() for need in frameworks_of(model)))
            and has_terms((model.name, model.description), terms)
        ]

    def tasks(self) -> list[Option]:
        """Return every task with its number of models."""
        counts = Counter(model.task for model in self.matching(without="task"))
        names = sorted({model.task for model in self.models} - {""})
        return [Option(name, counts[name]) for name in names]

    def model_options(self) -> tuple[list[ModelOption], int]:
        """Return the first models that fit, those that are chosen ahead; and how many fit."""
        matching = self.matching()
        names = {name.partition(":")[0] for name in self.chosen.models}
        ahead = [model for model in self.models if model.name in names]
        listed = [*ahead, *(model for model in matching if model.name not in names)]
        options = [
            ModelOption(
                name=model.name,
                task=model.task,
                frameworks=", ".join(need.name for need in frameworks_of(model)),
                parameters=counted(figures_of(model).parameters),
                agents=len(self.agents_with(frameworks_of(model))),
                is_chosen=model.name in names,
            )
            for model in listed[: max(MOST_SHOWN, len(ahead))]
        ]
        return options, len(matching)

    def subject_models(self) -> list[ModelManifest]:
        """Return the chosen models, or all that match while none is chosen."""
        names = {name.partition(":")[0] for name in self.chosen.models}
        chosen = [model for model in self.models if model.name in names]
        return chosen or self.matching(without="framework")

    def frameworks(self) -> list[Option]:
        """Return the frameworks of the models, with how many agents have each."""
        needs: dict[str, list[FrameworkNeed]] = {}
        for model in self.subject_models():
            for need in frameworks_of(model):
                needs.setdefault(need.name, []).append(need)
        return [Option(name, len(self.agents_with(needs[name])), "agent") for name in sorted(needs)]

    def devices(self) -> list[Option]:
        """Return the devices of all agents, with how many agents have each."""
        counts = Counter(
            device
            for agent in self.announcements
            for device in {device for runtime in agent.runtimes for device in runtime.devices}
        )
        return [Option(name, counts[name], "agent") for name in sorted(counts)]

    def agents_with(self, needs: Iterable[FrameworkNeed]) -> list[str]:
        """Return the agents with one of the frameworks, on the device that is chosen."""
        chosen, framework = self.chosen, framework_name(self.chosen.framework)
        suitable = [need for need in needs if framework in ("", need.name.lower())]
        return [
            agent.agent
            for agent in self.announcements
            if (not chosen.agents or agent.agent in chosen.agents)
            and any(
                meets(runtime, need)
                for runtime in agent.runtimes
                if not chosen.device or chosen.device in runtime.devices
                for need in suitable
            )
        ]

    def datasets(self) -> list[tuple[DatasetManifest, bool]]:
        """Return every dataset, and whether the inputs of the chosen models fit its modality."""
        inputs = [{port.type for port in model.inputs} for model in self.subject_models()]

        def fits(dataset: DatasetManifest) -> bool:
            kinds = _INPUTS_OF.get(dataset.modality, {dataset.modality})
            is_any = dataset.synthetic is not None or not self.chosen.models
            return is_any or all(kinds & types for types in inputs)

        return [(dataset, fits(dataset)) for dataset in newest_of(self.catalog.datasets)]

    def scenarios(self) -> list[ScenarioManifest]:
        """Return every scenario by name."""
        return newest_of(self.catalog.scenarios)

    def defaults(self) -> dict[str, Mapping[str, Any]]:
        """Return the defaults of each scenario's parameters."""
        return {scenario.name: scenario.parameters for scenario in self.scenarios()}

    def collectors(self) -> list[str]:
        """Return the collectors of all agents that work there."""
        return sorted(
            {
                collector.name
                for agent in self.announcements
                for collector in agent.collectors
                if collector.levels
            }
        )


def framework_name(text: str) -> str:
    """Return the name in `name:constraint`, in lower case, as its predictor has it."""
    return predictors_name(text.partition(":")[0]).strip().lower()


def newest_of(manifests: Iterable[M]) -> list[M]:
    """Return the newest version of each of the `manifests`, by name."""
    ordered = sorted(manifests, key=lambda manifest: version_order(manifest.version))
    newest = {manifest.name: manifest for manifest in ordered}
    return [newest[name] for name in sorted(newest)]


def meets(runtime: Runtime, need: FrameworkNeed) -> bool:
    """Tell whether an agent's `runtime` is the framework of a `need`, in a version that fits."""
    if runtime.framework.lower() != need.name.lower():
        return False
    try:
        return satisfies(runtime.version, constraint_of(need.version))
    except BadConstraint:
        return False
