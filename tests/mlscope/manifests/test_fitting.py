"""What agents lack to open a model, and where it runs."""

from typing import Any

import pytest

from mlscope.assets.keys import short_key
from mlscope.manifests.digests import digest_of
from mlscope.manifests.fitting import Running, alike, missing_parts, needs_of, running_of
from mlscope.manifests.variants import variant_for
from schemas.agent import Announcement, HostFacts, PackageFacts
from schemas.manifest import Assets, FrameworkNeed, ModelManifest, Port, Step, Variant
from schemas.status import AgentStatus
from tests.services.scheduler.samples import a_model, a_runtime, an_agent

COMMIT = "0" * 40
ABSENT = "not installed: pip install 'mlscope[vision]'"
TIMM = Assets(
    base_url="hf://timm/net@main/",
    weights_path="model.safetensors",
    builder="timm.create_model",
    unverifiable="a branch",
)


def a_timm_model(**changes: Any) -> ModelManifest:
    ports = (Port(type="image", layer_name="x", steps=(Step(operator="decode"),)),)
    known: dict[str, Any] = {
        "framework": FrameworkNeed(name="pytorch", version=">=2.0"),
        "model": TIMM,
        "inputs": ports,
    }
    return a_model(**(known | changes))


def a_torch(
    agent: str = "a1", *, missing: str = "", has_hub: bool = True, **changes: Any
) -> AgentStatus:
    """Return an agent with PyTorch, a hub, and all packages but the `missing` one."""
    names = ("PIL", "safetensors", "timm")
    facts = (PackageFacts(name=name, reason=ABSENT if name == missing else "") for name in names)
    known: dict[str, Any] = {
        "runtimes": (a_runtime(framework="pytorch", version="2.9.0"),),
        "packages": tuple(facts),
        "has_hub": has_hub,
    }
    return an_agent(agent, **(known | changes))


def lacking(agent: Announcement, model: ModelManifest, **options: Any) -> str:
    return "; ".join(lack.text for lack in missing_parts(agent, needs_of(model, options)))


@pytest.mark.parametrize(
    ("missing", "needed_by"),
    [
        ("timm", "builder timm.create_model"),
        ("PIL", "step decode"),
        ("safetensors", "weights model.safetensors"),
    ],
)
def test_a_missing_package_is_told_with_its_install_line(missing: str, needed_by: str) -> None:
    told = lacking(a_torch(missing=missing).announcement, a_timm_model())
    assert told == f"{needed_by} needs {missing}: {ABSENT}"


@pytest.mark.parametrize(
    ("installed", "reason"),
    [
        ("1.0.9", "there is 1.0.9: pip install --upgrade 'timm>=1.0.12'"),
        ("1.0.12", ""),
        ("1.1.0+cpu", ""),
        ("", ""),
    ],
)
def test_a_builder_that_is_too_old_is_told_before_it_is_called(installed: str, reason: str) -> None:
    agent = a_torch(packages=(PackageFacts(name="timm", version=installed),)).announcement
    model = a_timm_model(model=TIMM.model_copy(update={"builder_version": ">=1.0.12"}))
    told = lacking(agent, model)
    assert told == (reason and f"builder timm.create_model needs timm>=1.0.12, and {reason}")


def test_weights_of_a_hub_need_one_or_none() -> None:
    agent = a_torch(has_hub=False, hub_reason="https://hub: refused").announcement
    told = lacking(agent, a_timm_model())
    assert "hf://timm/net@main/model.safetensors: https://hub: refused" in told
    assert told.endswith("--option weights=random measures it with random weights")
    assert lacking(agent, a_timm_model(), weights="random") == ""


DOWN = (HostFacts(name="download.pytorch.org", reason="https://download.pytorch.org/: refused"),)
WEB, SHA256 = "https://download.pytorch.org/models/", "ab" * 32


@pytest.mark.parametrize(
    ("checksum", "key"),
    [
        (f"sha256:{SHA256}", f"sha256:{SHA256}"),
        ("sha256-prefix:f37072fd", f"sha256-prefix:f37072fd {WEB}w.pth"),
        ("", ""),
    ],
)
def test_weights_of_a_host_that_does_not_answer_need_a_cached_copy_or_none(
    checksum: str, key: str
) -> None:
    changes = {"base_url": WEB, "weights_path": "w.pth", "weights_checksum": checksum}
    model = a_timm_model(model=TIMM.model_copy(update=changes))
    lacks = lacking(a_torch(hosts=DOWN).announcement, model)
    assert f"{WEB}w.pth: https://download.pytorch.org/: refused; " in lacks
    assert lacks.endswith("--option weights=random measures it with random weights")
    assert lacking(a_torch(hosts=DOWN).announcement, model, weights="random") == ""
    cached = a_torch(hosts=DOWN, cached=(short_key(key),)).announcement
    assert (lacking(cached, model) == "") == bool(key)
    assert (
        lacking(a_torch(hosts=(HostFacts(name="github.com", reason="down"),)).announcement, model)
        == ""
    )


def test_where_weights_cannot_be_had_the_host_is_what_a_model_needs() -> None:
    changes = {"base_url": WEB, "weights_path": "w.pth", "weights_checksum": f"sha256:{SHA256}"}
    model = a_timm_model(model=TIMM.model_copy(update=changes))
    assert running_of(model, alike((a_torch(hosts=DOWN),))).text == "needs download.pytorch.org"
    agents = (a_torch("away", hosts=DOWN), a_torch("near"))
    assert running_of(model, alike(agents)).agents == ("near",)


def test_a_commit_of_a_hub_needs_a_cached_copy_where_the_hub_does_not_answer() -> None:
    commit = TIMM.model_copy(update={"base_url": f"hf://timm/net@{COMMIT}/"})
    model = a_timm_model(model=commit)
    cached = (short_key(f"hf://timm/net@{COMMIT}/model.safetensors"),)
    assert lacking(a_torch(has_hub=False, cached=cached).announcement, model) == ""
    assert "MLSCOPE_HUB_URL" in lacking(a_torch(has_hub=False).announcement, model)


def test_an_older_agent_is_asked_nothing() -> None:
    older = an_agent(runtimes=(a_runtime(framework="pytorch"),)).announcement
    assert lacking(older, a_timm_model()) == ""


def test_a_model_runs_where_nothing_is_missing() -> None:
    agents = (a_torch("good"), a_torch("bare", missing="timm"), an_agent("other"))
    running = running_of(a_timm_model(), alike(agents))
    assert running == Running(("good",), (), "weights=unverified")
    assert running.text == "good with --option weights=unverified"
    assert running_of(a_model(), alike((an_agent("plain"),))).text == "plain"


def test_what_is_missing_everywhere_is_told_once() -> None:
    agents = (a_torch("b1", missing="timm"), a_torch("b2", missing="timm"), an_agent("other"))
    running = running_of(a_timm_model(), alike(agents))
    assert running.agents == ()
    assert running.text == "needs timm, pytorch"
    assert running.reasons == (
        f"builder timm.create_model needs timm: {ABSENT}; "
        "pytorch is not installed (pip install 'mlscope[pytorch]')"
    )


def test_a_version_that_is_not_there_is_missing() -> None:
    old = a_torch(runtimes=(a_runtime(framework="pytorch", version="1.13.0"),))
    running = running_of(a_timm_model(), alike((old,)))
    assert running.text == "needs pytorch >=2.0"
    assert running.reasons == "pytorch >=2.0 is not installed: there is 1.13.0"


@pytest.mark.parametrize(
    "changes", [{"state": "lost"}, {"reserved_for": "import"}], ids=["lost", "reserved"]
)
def test_an_agent_that_serves_nobody_counts_for_nothing(changes: dict[str, Any]) -> None:
    away = a_torch(**changes)
    assert running_of(a_timm_model(), alike((away,))).text == "needs an agent"


def test_one_of_several_frameworks_is_enough() -> None:
    both = a_timm_model(
        frameworks=(Variant(name="onnxruntime", model=Assets(graph_path="m.onnx")),)
    )
    assert variant_for(both, "ort").framework.name == "onnxruntime"
    assert running_of(both, alike((an_agent("plain"),))).agents == ("plain",)


def test_a_file_that_the_owner_wants_verified_is_not_offered() -> None:
    model = a_model(model=Assets(graph_path="https://example.org/m.onnx"))
    open_to_all, careful = (
        an_agent("a1", models=models) for models in (None, (digest_of(model)[:12],))
    )
    assert running_of(model, alike((open_to_all,))).option == "weights=unverified"
    running = running_of(model, alike((careful,)))
    assert (running.agents, running.text) == ((), "needs its owner's permission")


def test_many_agents_are_told_in_few_words() -> None:
    groups = alike(an_agent(f"a{number}") for number in range(1000))
    assert len(groups) == 1
    assert running_of(a_model(), groups).text == "a0, a1, a2 and 997 more"
