"""The page that starts evaluations: the form, who would run it, the same request as text. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

from mlscope.client.equivalents import Equivalents, equivalents_of
from mlscope.counts import many, verb
from mlscope.evaluation.expectation import expected_text, rounded_time
from schemas.agent import Announcement
from schemas.level import Level
from schemas.request import Evaluate, Refused, Visibility
from schemas.status import AgentStatus, Catalog, Matched
from services.gateway.pages.starting.narrowing import Chosen, ModelOption, Offer
from services.gateway.pages.starting.request_form import ManifestReader, Values, filled

LEVELS = {
    Level.NONE: "nothing: the base for the overhead of the others",
    Level.APPLICATION: "each query as a whole",
    Level.MODEL: "each step: decode, …, predict, …",
    Level.FRAMEWORK: "the framework's layers",
    Level.LIBRARY: "calls into libraries, as cuDNN",
    Level.SYSTEM: "kernels, copies, the operating system",
    Level.HARDWARE: "hardware counters",
    Level.FULL: "everything there is",
}
VISIBILITIES: Mapping[Visibility, str] = {
    "cluster": "everybody here",
    "private": "only you and owners",
}
"""Who sees an evaluation, by its `visibility`."""
_RESULT = "Final performance result is: "
_MOST_WRITTEN = 256 << 10
"""Characters of a form for whose requests programs are written: they repeat a typed manifest."""


@dataclass(frozen=True, slots=True)
class Preview:
    """What would happen to one request: who would run it, or why it is refused."""

    model: str
    matched: Matched | None = None
    refused: Refused | None = None

    @property
    def summary(self) -> str:
        """How many agents fit, and what they would do."""
        if self.matched is None:
            return self.refused.message if self.refused else ""
        if not self.matched.agents:
            return "No agent fits."
        count = len(self.matched.agents)
        return f"{many(count, 'agent')} {verb(count, 'fits', 'fit')}"

    @property
    def work(self) -> str:
        """The planned runs and the time that the stop rule allows them."""
        matched = self.matched
        if matched is None or not matched.runs:
            return ""
        runs = f"{many(matched.runs, 'run')} in {many(matched.sessions, 'session')}"
        if matched.budget_s is None:
            return f"{runs}; the stop rule has no time limit"
        return f"{runs}; at most {rounded_time(matched.budget_s)} by the stop rule"

    @property
    def expected(self) -> str:
        """How long its runs will take, as earlier ones tell; '' if none does."""
        return expected_text(self.matched) if self.matched else ""

    @property
    def can_start(self) -> bool:
        """Whether an agent would run it now."""
        return self.matched is not None and bool(self.matched.agents)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a scenario: its field, its default, and what was typed."""

    field: str
    name: str
    default: str
    value: str


@dataclass(frozen=True, slots=True)
class ScenarioOption:
    """A scenario to choose: what it does, its result, and its parameters."""

    name: str
    description: str
    result: str
    is_chosen: bool
    parameters: Sequence[Parameter]


CONSTRAINTS = (
    "accelerator",
    "accelerator_memory_bytes",
    "memory_bytes",
    "interconnect",
    "architecture",
    "system_labels",
)
"""Fields that constrain the system beside its framework and device; a page folds them."""
_FIRST_MODEL = "efficientnet-lite0"
"""The model that the documentation begins with."""


@dataclass(frozen=True)
class NewView:
    """The form with what was typed, what is wrong with it, and what would happen."""

    values: Values
    offer: Offer
    faults: Mapping[str, str] = field(default_factory=dict)
    previews: Sequence[Preview] = ()
    equivalents: Equivalents | None = None
    nonce: str = ""
    origin: str = ""
    template: ClassVar[str] = "new.html"
    title: ClassVar[str] = "New evaluation"
    levels: ClassVar[Sequence[tuple[str, str]]] = tuple(
        (level.name.lower(), text) for level, text in LEVELS.items()
    )
    visibilities: ClassVar[Sequence[tuple[str, str]]] = tuple(VISIBILITIES.items())

    def text(self, name: str, default: str = "") -> str:
        """Return what a field holds."""
        texts = self.values.get(name, ())
        return texts[-1] if texts else default

    def has(self, name: str, value: str) -> bool:
        """Tell whether a field of several values has one of them."""
        return value in self.values.get(name, ())

    def fault(self, name: str) -> str:
        """Return what is wrong with a field, '' if nothing is."""
        return self.faults.get(name, "")

    @property
    def suggestion(self) -> str:
        """A listed model that an agent can run, to start with one click; '' if there is none."""
        options, _ = self.model_options
        names = [option.name for option in options if option.agents]
        return _FIRST_MODEL if _FIRST_MODEL in names else next(iter(names), "")

    @property
    def has_constraints(self) -> bool:
        """Whether a constraint on the system is typed, or wrong."""
        return any(self.text(name) or self.fault(name) for name in CONSTRAINTS)

    @property
    def is_further_open(self) -> bool:
        """Whether the less used fields hold something."""
        names = ("options", "labels", "further", "warmup", "outputs", "run_timeout_s", "wait_s")
        typed = any(self.text(name) for name in (*names, "serialised", "pacing"))
        return typed or any(name in names or name.startswith("blocks.") for name in self.faults)

    @cached_property
    def model_options(self) -> tuple[list[ModelOption], int]:
        """The models to list, and how many match."""
        return self.offer.model_options()

    @property
    def constrained_models(self) -> list[str]:
        """The models that were named otherwise than in the list, as with a version."""
        listed = {option.name for option in self.model_options[0]}
        return [name for name in self.offer.chosen.models if name not in listed]

    @property
    def task_choices(self) -> list[tuple[str, str]]:
        """The tasks with their numbers of models."""
        return [(task.value, f"{task.value} ({task.count})") for task in self.offer.tasks()]

    @property
    def framework_choices(self) -> list[tuple[str, str]]:
        """The frameworks with their numbers of agents, and one that was typed with a constraint."""
        choices = [(option.value, option.text) for option in self.offer.frameworks()]
        return self._with_typed("framework", choices)

    @property
    def device_choices(self) -> list[tuple[str, str]]:
        """The devices with their numbers of agents."""
        return self._with_typed(
            "device", [(option.value, option.text) for option in self.offer.devices()]
        )

    @property
    def dataset_choices(self) -> list[tuple[str, str]]:
        """The datasets that suit the models' inputs, then the others, marked."""
        ordered = sorted(self.offer.datasets(), key=lambda choice: not choice[1])
        return self._with_typed(
            "dataset",
            [
                (dataset.name, dataset.name if fits else f"{dataset.name} ({dataset.modality})")
                for dataset, fits in ordered
                if fits or dataset.name == self.text("dataset")
            ],
        )

    def _with_typed(self, name: str, choices: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return choices with the field's own value, which no choice may be: nothing is lost."""
        value = self.text(name)
        is_listed = value in ("", *(choice for choice, _ in choices))
        return choices if is_listed else [*choices, (value, value)]

    @property
    def collectors(self) -> list[str]:
        """The collectors to switch."""
        return self.offer.collectors()

    @property
    def has_collectors(self) -> bool:
        """Whether a collector is switched."""
        return any(self.text(f"collectors.{name}") for name in self.collectors)

    @property
    def scenario_options(self) -> list[ScenarioOption]:
        """The scenarios with their parameters."""
        chosen = {text.partition(":")[0] for text in self.values.get("scenarios", ())}
        options: list[ScenarioOption] = []
        for scenario in self.offer.scenarios():
            text = " ".join(scenario.description.split())
            description, _, result = text.partition(_RESULT)
            typed = [
                key.partition(".")[2] for key in self.values if key.startswith(f"{scenario.name}.")
            ]
            names = dict.fromkeys((*scenario.parameters, *typed))
            parameters = [
                Parameter(
                    field=f"{scenario.name}.{name}",
                    name=name,
                    default=str(scenario.parameters.get(name, "")),
                    value=self.text(f"{scenario.name}.{name}"),
                )
                for name in names
            ]
            first_sentence = description.partition(". ")[0].rstrip(".") + "."
            is_chosen = scenario.name in chosen
            options.append(
                ScenarioOption(scenario.name, first_sentence, result, is_chosen, parameters)
            )
        return options

    @property
    def agents(self) -> list[tuple[AgentStatus, str]]:
        """Every agent, with its hardware as a text."""
        return [
            (agent, hardware_text(agent.announcement))
            for agent in self.offer.catalog.agents
            if not agent.announcement.reserved_for
        ]

    @property
    def accelerators(self) -> list[str]:
        """The names of all accelerators."""
        by_agent = (agent.hardware.accelerators for agent in self.offer.announcements)
        return sorted({accelerator.name for several in by_agent for accelerator in several})

    @property
    def can_start(self) -> bool:
        """Whether an agent would run each of the requests."""
        return bool(self.previews) and all(preview.can_start for preview in self.previews)


def hardware_text(agent: Announcement) -> str:
    """Return an agent's machine as a short text."""
    hardware = agent.hardware
    parts = [accelerator.name for accelerator in hardware.accelerators]
    parts += [hardware.cpu_model or hardware.architecture, many(hardware.cores, "core")]
    return ", ".join(filter(None, parts))


def chosen_of(values: Values) -> Chosen:
    """Return what narrows the catalog, of what was typed."""

    def text(name: str) -> str:
        texts = values.get(name, ())
        return texts[-1].strip() if texts else ""

    return Chosen(
        models=[name.strip() for name in values.get("model", ()) if name.strip()],
        search=text("search"),
        task=text("task"),
        framework=text("framework"),
        device=text("device"),
        agents=[agent for agent in values.get("agents", ()) if agent],
    )


@dataclass(frozen=True, slots=True)
class Form:
    """A form as it was typed: its fields, the catalog it chooses from, and its requests."""

    values: Values
    offer: Offer
    requests: Sequence[Evaluate]
    faults: Mapping[str, str]

    @property
    def has_equivalents(self) -> bool:
        """Whether commands and programs are written for the requests; of long ones none are."""
        characters = sum(len(text) for texts in self.values.values() for text in texts)
        return bool(self.requests) and characters <= _MOST_WRITTEN

    def view(self, previews: Sequence[Preview] = (), **further: Any) -> NewView:
        """Return the page; `previews` are the answers to the requests, `further` its fields."""
        return NewView(
            values=self.values,
            offer=self.offer,
            faults={**self.faults, **further.pop("faults", {})},
            previews=previews,
            equivalents=equivalents_of(self.requests) if self.has_equivalents else None,
            **further,
        )


def form_of(values: Values, catalog: Catalog, read_manifest: ManifestReader) -> Form:
    """Return the form with the fields `values`, which chooses from `catalog`.

    `read_manifest` reads the manifests among the fields.
    """
    offer = Offer(catalog, chosen_of(values))
    read = filled(values, read_manifest, offer.defaults())
    return Form(values, offer, read.requests, read.faults)
