"""What a form offers of the catalog: each choice narrows the others, versions in their order."""

from typing import Any

import pytest

from schemas.agent import Announcement, CollectorFacts, Hardware, Runtime
from schemas.level import Level
from schemas.manifest import DatasetManifest, ModelManifest, Port, ScenarioManifest
from schemas.status import AgentStatus, Catalog
from services.gateway.pages.starting.narrowing import MOST_SHOWN, Chosen, Offer
from tests.stories import a_model


def model(name: str, framework: str, constraint: str = "", **changes: Any) -> ModelManifest:
    """Return a model that needs a framework."""
    need = {"name": framework, "version": constraint}
    return ModelManifest.model_validate(
        a_model().model_dump() | {"name": name, "framework": need} | changes
    )


def agent(
    name: str, *runtimes: tuple[str, str, str], state: str = "live", **facts: Any
) -> AgentStatus:
    """Return an agent with runtimes, each a framework, its version and a device."""
    announcement = Announcement(
        agent=name,
        incarnation="i1",
        hardware=Hardware(hostname="h", architecture="x86_64"),
        runtimes=tuple(
            Runtime(framework=framework, version=version, devices=(device,))
            for framework, version, device in runtimes
        ),
        **facts,
    )
    return AgentStatus.model_validate({"announcement": announcement, "state": state})


RESNET = model(
    "resnet", "PyTorch", ">=2", task="image classification", description="Deep, residual"
)
OLD = model("alexnet", "PyTorch", "<2", task="image classification")
TEXTS = model("bert", "onnxruntime", task="question answering", inputs=(Port(type="text"),))
HIDDEN = model("secret", "onnxruntime", hidden=True)
MODELS = (RESNET, OLD, TEXTS, HIDDEN)
AGENTS = (
    agent("new", ("pytorch", "2.1.0", "cuda"), ("onnxruntime", "1.18.0", "cpu")),
    agent("old", ("pytorch", "1.13.1", "cpu")),
    agent("gone", ("pytorch", "2.1.0", "cpu"), state="left"),
    agent("importing", ("pytorch", "2.1.0", "cpu"), reserved_for="k"),
)


def offer(**chosen: Any) -> Offer:
    """Return what the catalog offers under some choices."""
    return Offer(Catalog(models=MODELS, agents=AGENTS), Chosen(**chosen))


@pytest.mark.parametrize(
    ("chosen", "names"),
    [
        ({}, ["alexnet", "bert", "resnet"]),
        ({"task": "image classification"}, ["alexnet", "resnet"]),
        ({"framework": "PyTorch:>=2"}, ["alexnet", "resnet"]),
        ({"search": "RESIDUAL deep"}, ["resnet"]),
        ({"search": "residual text"}, []),
        ({"task": "question answering", "framework": "pytorch"}, []),
    ],
)
def test_models_match_every_choice(chosen: dict[str, Any], names: list[str]) -> None:
    assert [manifest.name for manifest in offer(**chosen).matching()] == names


def test_a_choice_does_not_narrow_its_own_field() -> None:
    tasks = {option.value: option.count for option in offer(task="question answering").tasks()}
    assert tasks == {"image classification": 2, "question answering": 1}


def test_the_newest_of_each_manifest_is_offered_and_not_the_last_of_the_alphabet() -> None:
    versions = ("1.10.0", "1.9.0")
    catalog = Catalog(
        models=tuple(model("m", "pytorch", version=version) for version in versions),
        datasets=tuple(DatasetManifest(name="d", version=version) for version in versions),
        scenarios=tuple(
            ScenarioManifest(name="s", version=version, parameters={"of": version})
            for version in versions
        ),
    )
    offered = Offer(catalog, Chosen())
    assert [manifest.version for manifest in offered.models] == ["1.10.0"]
    assert [dataset.version for dataset, _ in offered.datasets()] == ["1.10.0"]
    assert offered.defaults() == {"s": {"of": "1.10.0"}}


def test_an_agent_counts_that_any_of_the_models_can_use() -> None:
    # Each of the two agents suits one of the models, whose constraints exclude each other.
    counts = {option.value: option.count for option in offer().frameworks()}
    assert counts == {"PyTorch": 2, "onnxruntime": 1}
    assert offer().agents_with([OLD.framework, RESNET.framework]) == ["new", "old"]
    assert offer().agents_with([RESNET.framework, OLD.framework]) == ["new", "old"]


def test_agents_are_narrowed_by_device_framework_and_name() -> None:
    needs = [RESNET.framework, OLD.framework, TEXTS.framework]
    assert offer(device="cpu").agents_with(needs) == ["new", "old"]
    assert offer(device="cuda").agents_with(needs) == ["new"]
    assert offer(framework="onnxruntime").agents_with(needs) == ["new"]
    assert offer(agents=("old",)).agents_with(needs) == ["old"]
    assert offer(device="cuda", agents=("old",)).agents_with(needs) == []


def test_only_agents_that_are_here_and_serve_all_are_offered() -> None:
    assert {option.value: option.count for option in offer().devices()} == {"cpu": 2, "cuda": 1}


def test_a_chosen_model_is_listed_ahead_though_it_does_not_match() -> None:
    options, count = offer(models=("bert:1.0.0",), task="image classification").model_options()
    assert [(option.name, option.is_chosen) for option in options] == [
        ("bert", True),
        ("alexnet", False),
        ("resnet", False),
    ]
    assert count == 2


def test_a_page_lists_so_many_models_and_says_how_many_match() -> None:
    catalog = Catalog(models=tuple(model(f"m{n:03}", "pytorch") for n in range(MOST_SHOWN + 5)))
    options, count = Offer(catalog, Chosen()).model_options()
    assert (len(options), count) == (MOST_SHOWN, MOST_SHOWN + 5)


def test_datasets_fit_the_inputs_of_every_chosen_model() -> None:
    datasets = (
        DatasetManifest(name="pictures", modality="image"),
        DatasetManifest(name="questions", modality="text"),
    )
    catalog = Catalog(models=MODELS, datasets=datasets)
    fits = {
        names: {
            dataset.name: does_fit for dataset, does_fit in Offer(catalog, Chosen(names)).datasets()
        }
        for names in ((), ("bert",))
    }
    assert fits[()] == {"pictures": True, "questions": True}
    assert fits["bert",] == {"pictures": False, "questions": True}


def test_a_collector_without_levels_is_not_offered() -> None:
    collectors = (
        CollectorFacts(name="cupti", levels=(Level.SYSTEM,)),
        CollectorFacts(name="ncu", levels=()),
    )
    here = agent("a", ("pytorch", "2.0", "cpu"), collectors=collectors)
    assert Offer(Catalog(agents=(here,)), Chosen()).collectors() == ["cupti"]
