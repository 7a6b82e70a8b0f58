"""Who can run a request and, for each one that can't, why."""

from typing import Any

import pytest
from pydantic import ValidationError

from mlscope.manifests.digests import digest_of
from schemas.agent import PackageFacts
from schemas.level import Level
from schemas.manifest import Assets, DatasetManifest, Port, Sample, Step
from schemas.request import Refused
from schemas.status import AgentStatus, Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.matching import match
from tests.services.scheduler.samples import (
    GIB,
    a_catalog,
    a_dataset,
    a_gpu,
    a_machine,
    a_model,
    a_request,
    a_runtime,
    an_agent,
)


def reason(agent: AgentStatus, **wanted: Any) -> str:
    """Return why an agent can't run a request; '' if it can."""
    found = match(a_request(**wanted), a_catalog(agent), {})
    return "".join(each.reason for each in found.reasons)


def refusal(catalog: Catalog, **wanted: Any) -> Refused:
    """Return the refusal of a request."""
    with pytest.raises(RequestRefused) as refused:
        match(a_request(**wanted), catalog, {})
    return refused.value.refused


GPU_MACHINE = a_machine(accelerators=(a_gpu(interconnect="nvlink"),))


@pytest.mark.parametrize(
    ("system", "found"),
    [
        ({"architecture": "aarch64"}, "architecture x86_64, wanted aarch64"),
        ({"memory_bytes": 16 * GIB}, "memory 8.0 GiB, wanted 16.0 GiB"),
        ({"device": "gpu"}, "onnxruntime serves cpu, wanted device gpu"),
        ({"accelerator": "h200"}, "no accelerator, wanted accelerator h200"),
        ({"interconnect": "nvlink"}, "interconnect unknown, wanted nvlink"),
        ({"labels": {"zone": "a"}}, "no such label, wanted zone=a"),
        ({"architecture": "amd64"}, ""),
        ({"memory_bytes": 8 * GIB}, ""),
    ],
)
def test_each_reason_says_what_was_found_and_wanted(system: dict[str, Any], found: str) -> None:
    assert reason(an_agent(), system=system) == found


def test_every_reason_of_an_agent_is_named() -> None:
    both = reason(an_agent(), system={"device": "gpu", "architecture": "arm64"})
    assert both == "onnxruntime serves cpu, wanted device gpu; architecture x86_64, wanted arm64"


@pytest.mark.parametrize(
    ("system", "found"),
    [
        ({"accelerator": "h200", "device": "gpu"}, ""),
        ({"accelerator": "a100"}, "NVIDIA H200, wanted accelerator a100"),
        ({"accelerator_memory_bytes": 100 * GIB}, ""),
        ({"accelerator_memory_bytes": 200 * GIB}, "accelerator memory 139.0 GiB, wanted 200.0 GiB"),
        ({"interconnect": "NVLink"}, ""),
        ({"interconnect": "infiniband"}, "interconnect nvlink, wanted infiniband"),
    ],
)
def test_accelerators(system: dict[str, Any], found: str) -> None:
    runtimes = (a_runtime(devices=("cpu", "gpu")),)
    assert reason(an_agent(hardware=GPU_MACHINE, runtimes=runtimes), system=system) == found


@pytest.mark.parametrize(
    ("name", "wanted", "fits"),
    [
        ("Tesla V100-SXM2-16GB", "tesla v100 sxm2", True),
        ("Tesla V100-SXM2-16GB", "V100-SXM2", True),
        ("Tesla  V100 SXM2 ", "v100 sxm2", True),
        ("NVIDIA_H200", " nvidia  h200 ", True),
        ("NVIDIA H200", "h 200", False),
        ("NVIDIA H200", "h200 nvidia", False),
        ("", "h200", False),
    ],
)
def test_accelerators_are_named_with_spaces_as_they_come(
    name: str, wanted: str, fits: bool
) -> None:
    machine = a_machine(accelerators=(a_gpu(name=name),))
    assert (reason(an_agent(hardware=machine), system={"accelerator": wanted}) == "") is fits


@pytest.mark.parametrize(
    "blank",
    [
        {"accelerator": "  "},
        {"interconnect": " "},
        {"architecture": " "},
        {"device": " "},
    ],
)
def test_blank_wishes_are_none(blank: dict[str, str]) -> None:
    assert reason(an_agent(), system=blank) == ""


@pytest.mark.parametrize(
    ("has", "wanted", "found"),
    [
        (8 * GIB, 8 * GIB + 1, "memory 8589934592 bytes, wanted 8589934593 bytes"),
        (1000, 2000, "memory 1000 bytes, wanted 2000 bytes"),
        (0, GIB, "memory unknown, wanted 1.0 GiB"),
        (0, 1, "memory unknown, wanted 1 bytes"),
        (-1, 0, ""),
        (8 * GIB, 2**62, "memory 8.0 GiB, wanted 4294967296.0 GiB"),
    ],
)
def test_memory_is_told_so_that_the_lack_is_seen(has: int, wanted: int, found: str) -> None:
    agent = an_agent(hardware=a_machine(memory_bytes=has))
    assert reason(agent, system={"memory_bytes": wanted}) == found


@pytest.mark.parametrize("memory", ["16 GiB", "16GB", -1, 1.5, "lots", None])
def test_memory_in_other_units_is_no_request(memory: object) -> None:
    with pytest.raises(ValidationError, match="memory_bytes"):
        a_request(system={"memory_bytes": memory})


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ({"zone": "a", "rack": "7"}, ""),
        ({"zone": "b"}, "zone=a, wanted zone=b"),
        ({"zone": ""}, "zone=a, wanted zone="),
        ({"Zone": "a"}, "no such label, wanted Zone=a"),
        ({"zone": "A"}, "zone=a, wanted zone=A"),
        ({"": ""}, "no such label, wanted ="),
    ],
)
def test_labels_are_taken_by_the_letter(wanted: dict[str, str], found: str) -> None:
    agent = an_agent(labels={"zone": "a", "rack": "7", "ssd": ""})
    assert reason(agent, system={"labels": wanted}) == found


def test_an_agent_named_twice_is_told_of_once() -> None:
    found = match(a_request(agents=["a9", "a9", "a1", "a1"]), a_catalog(), {})
    assert [each.agent for each in found.agents] == ["a1"]
    assert [each.agent for each in found.reasons] == ["a9"]


@pytest.mark.parametrize("version", ["nightly", "", "9" * 5000, "1.0 (tags/v1)"])
def test_a_version_that_is_none_fits_no_constraint_and_stops_nobody(version: str) -> None:
    odd = an_agent("a1", runtimes=(a_runtime(version=version),))
    found = match(a_request(), a_catalog(odd, an_agent("a2")), {})
    assert [each.agent for each in found.agents] == ["a2"]
    assert found.reasons[0].reason.startswith(f"has onnxruntime {version[:20]}")


def test_a_runtime_without_any_device_is_told() -> None:
    agent = an_agent(runtimes=(a_runtime(devices=()),))
    assert reason(agent) == "onnxruntime serves no device, wanted device of any kind"


@pytest.mark.parametrize("text", ["~1.2", "garbage", ">=1.0 <", "9" * 500])
def test_what_is_no_constraint_is_refused_by_field(text: str) -> None:
    refused = refusal(a_catalog(), framework={"name": "onnxruntime", "version": text})
    assert (refused.error, refused.field) == ("invalid", "framework.version")
    needing = a_model(framework={"name": "onnxruntime", "version": text})
    assert refusal(a_catalog(models=(needing,))).field == "model.framework.version"
    assert refusal(a_catalog(), model=f"tiny:{text}").field == "model"


@pytest.mark.parametrize("name", [" ONNXRuntime ", "", "onnxruntime"])
def test_a_frameworks_name_is_taken_in_any_case(name: str) -> None:
    assert reason(an_agent(), framework={"name": name}) == ""


def test_gpu_means_the_device_the_runtime_calls_otherwise() -> None:
    agent = an_agent(hardware=GPU_MACHINE, runtimes=(a_runtime(devices=("cpu", "cuda")),))
    found = match(a_request(system={"device": "gpu"}), a_catalog(agent), {})
    assert found.agents[0].device == "cuda"
    assert match(a_request(), a_catalog(agent), {}).agents[0].device == "cpu"


@pytest.mark.parametrize(
    ("version", "asked", "found"),
    [
        ("1.31.1", "", ""),
        ("1.15.0", "", "has onnxruntime 1.15.0, wanted <2.0,>=1.16.0"),
        ("2.0.0", "", "has onnxruntime 2.0.0, wanted <2.0,>=1.16.0"),
        ("1.31.1", ">=1.40", "has onnxruntime 1.31.1, wanted <2.0,>=1.16.0 and >=1.40"),
    ],
)
def test_both_constraints_hold(version: str, asked: str, found: str) -> None:
    agent = an_agent(runtimes=(a_runtime(version=version),))
    assert reason(agent, framework={"name": "ONNXRuntime", "version": asked}) == found


BUILT_BY_TIMM = a_model(model=Assets(builder="timm.create_model", weights="random"))


def test_a_package_that_a_model_s_builder_needs_is_named() -> None:
    fact = PackageFacts(name="timm", reason="not installed: pip install 'mlscope[vision]'")
    found = match(a_request(model=BUILT_BY_TIMM), a_catalog(an_agent(packages=(fact,))), {})
    (refused,) = found.reasons
    assert refused.reason == f"builder timm.create_model needs timm: {fact.reason}"


def test_an_agent_with_the_package_of_a_builder_runs_its_model() -> None:
    catalog = a_catalog(an_agent(packages=(PackageFacts(name="timm", version="1.0"),)))
    assert match(a_request(model=BUILT_BY_TIMM), catalog, {}).agents


def test_another_framework_is_named() -> None:
    agent = an_agent(runtimes=(a_runtime(framework="tensorflow", version="2.1"),))
    install = "pip install 'mlscope[onnxruntime]'"
    assert reason(agent) == f"has tensorflow 2.1, wanted onnxruntime ({install})"
    assert reason(an_agent(runtimes=())) == f"has no framework, wanted onnxruntime ({install})"


@pytest.mark.parametrize(
    ("state", "found"), [("lost", "lost: its lease is gone"), ("left", "left")]
)
def test_who_is_gone_cannot(state: str, found: str) -> None:
    assert reason(an_agent(state=state)) == found


def test_a_drained_agent_gets_no_evaluation_although_it_is_named() -> None:
    drained = an_agent("a1").model_copy(update={"is_drained": True})
    for agents in ((), ("a1",)):
        assert reason(drained, agents=agents) == "drained: it gets no new evaluations"
    matched = match(a_request(), a_catalog(drained, an_agent("a2")), {})
    assert [candidate.agent for candidate in matched.agents] == ["a2"]


def test_agents_are_chosen_by_name_and_unknown_ones_are_told() -> None:
    catalog = a_catalog(an_agent("a1"), an_agent("a2"))
    found = match(a_request(agents=["a2", "a9"]), catalog, {})
    assert [each.agent for each in found.agents] == ["a2"]
    assert {each.agent: each.reason for each in found.reasons} == {
        "a9": "is not known here",
        "a1": "not among the agents that the request names: a2, a9",
    }


def test_a_reason_repeats_only_the_first_of_many_named_agents() -> None:
    wanted = a_request(agents=[f"b{n}" for n in range(4096)])
    reasons = match(wanted, a_catalog(an_agent("a1")), {}).reasons
    (reason,) = (unfit.reason for unfit in reasons if unfit.agent == "a1")
    assert reason == (
        "not among the agents that the request names: b0, b1, b2, b3, b4, b5, b6, b7 and 4088 more"
    )


def test_the_least_loaded_runs_it_unless_all_do() -> None:
    catalog = a_catalog(an_agent("a1"), an_agent("a2"), an_agent("a3"))
    loads = {"a1": 3, "a2": 1, "a3": 2}
    assert [each.agent for each in match(a_request(), catalog, loads).agents] == ["a2"]
    every = match(a_request(spread="all"), catalog, loads)
    assert [each.agent for each in every.agents] == ["a2", "a3", "a1"]


def test_who_traces_deep_enough_goes_first() -> None:
    shallow = an_agent("a1", runtimes=(a_runtime(deepest_level=Level.MODEL),))
    catalog = a_catalog(shallow, an_agent("a2"))
    found = match(a_request(trace_level="framework"), catalog, {"a2": 9})
    assert found.agents[0].agent == "a2"


def test_the_newest_version_that_fits_is_meant() -> None:
    models = tuple(a_model(version=version) for version in ("1.0.0", "1.10.0", "1.9.0"))
    catalog = a_catalog(models=models)
    assert match(a_request(), catalog, {}).model.version == "1.10.0"
    assert match(a_request(model="tiny:<1.10"), catalog, {}).model.version == "1.9.0"
    assert match(a_request(model="tiny:1.0.0"), catalog, {}).model.version == "1.0.0"
    refused = refusal(catalog, model="tiny:>=2")
    assert (refused.error, refused.field) == ("unknown", "model")
    assert "tiny:1.10.0" in refused.allowed


def test_an_unknown_model_is_refused_with_names_near_it() -> None:
    models = (a_model("efficientnet"), a_model("resnet50"), a_model("secret", hidden=True))
    refused = refusal(a_catalog(models=models), model="eficientnet")
    assert (refused.error, refused.field, refused.allowed) == ("unknown", "model", "efficientnet")
    assert "secret" not in refusal(a_catalog(models=models), model="secred").allowed


def test_a_hidden_model_is_found_under_its_name() -> None:
    catalog = a_catalog(models=(a_model("secret", hidden=True),))
    assert match(a_request(model="secret"), catalog, {}).model.name == "secret"


def test_a_model_sent_along_is_checked() -> None:
    port = Port(type="image", steps=(Step(operator="blur"),))
    model = a_model().model_copy(update={"inputs": (port,)})
    refused = refusal(a_catalog(), model=model)
    assert refused.field == "model.inputs.0.steps.0.operator"


def test_the_dataset_is_the_requests_else_the_models() -> None:
    other = a_dataset("other")
    catalog = a_catalog(datasets=(a_dataset(), other))
    assert match(a_request(), catalog, {}).dataset.name == "vectors"
    assert match(a_request(dataset="other"), catalog, {}).dataset.name == "other"
    assert refusal(catalog, dataset="otter").field == "dataset"


def test_a_model_without_dataset_gets_its_modalitys_or_noise() -> None:
    photos = DatasetManifest(name="photos", samples=(Sample(path="a.jpg", sha256="0"),))
    image = a_model(dataset="", inputs=(Port(type="image"),))
    catalog = a_catalog(models=(image,), datasets=(photos,))
    assert match(a_request(), catalog, {}).dataset.name == "photos"
    raw = a_catalog(models=(a_model(dataset=""),), datasets=())
    synthetic = match(a_request(), raw, {}).dataset.synthetic
    assert synthetic is not None
    assert synthetic.shape == (4,)


@pytest.mark.parametrize("shape", [(5,), (4, 1)])
def test_samples_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    refused = refusal(a_catalog(datasets=(a_dataset(shape=shape),)))
    assert (refused.error, refused.field) == ("invalid", "dataset")


def test_an_empty_dataset_is_refused() -> None:
    refused = refusal(a_catalog(), dataset={"name": "none"})
    assert refused.field == "dataset"


ON_TWO = a_model(
    name="both",
    frameworks=({"name": "pytorch", "version": ">=2.0", "options": {"compile": "default"}},),
)
TORCH = an_agent("t", runtimes=(a_runtime(framework="pytorch", version="2.13.0"),))
BOTH = a_catalog(TORCH, an_agent("o"), models=(ON_TWO,))


def test_samples_without_a_shape_are_made_for_the_model() -> None:
    found = match(a_request(), a_catalog(datasets=(a_dataset(shape=()),)), {})
    assert [each.agent for each in found.agents] == ["a1"]


def test_a_model_of_several_frameworks_runs_on_the_first_that_somebody_has() -> None:
    found = match(a_request(model="both"), a_catalog(TORCH, models=(ON_TWO,)), {})
    assert (found.model.framework.name, found.agents[0].framework) == ("pytorch", "pytorch")
    assert (found.model.frameworks, found.model.options) == ((), {"compile": "default"})
    assert match(a_request(model="both"), BOTH, {}).agents[0].agent == "o"


def test_the_digest_is_of_the_manifest_whatever_the_variant() -> None:
    first = match(a_request(model="both"), a_catalog(an_agent("o"), models=(ON_TWO,)), {})
    second = match(a_request(model="both"), a_catalog(TORCH, models=(ON_TWO,)), {})
    assert first.digest == second.digest == digest_of(ON_TWO)


def test_a_framework_the_request_names_is_the_one() -> None:
    asked = a_request(model="both", framework={"name": "PyTorch"})
    assert match(asked, BOTH, {}).agents[0].agent == "t"
    told = refusal(BOTH, model="both", framework={"name": "jax"})
    assert (told.field, told.allowed) == ("framework.name", "onnxruntime, pytorch, as both needs")


def test_who_has_none_of_the_frameworks_is_told_each() -> None:
    jax = an_agent("j", runtimes=(a_runtime(framework="jax", version="0.10"),))
    found = match(a_request(model="both"), a_catalog(jax, models=(ON_TWO,)), {})
    (refused,) = found.reasons
    assert refused.reason == (
        "has jax 0.10, wanted onnxruntime (pip install 'mlscope[onnxruntime]'); "
        "has jax 0.10, wanted pytorch (pip install 'mlscope[pytorch]')"
    )


def test_an_agent_reserved_for_a_request_serves_and_hinders_no_other() -> None:
    imported = an_agent("imported", reserved_for="import e1")
    catalog = a_catalog(imported, an_agent("own", runtimes=()))
    found = match(a_request(key="k"), catalog, {})
    assert (found.agents, [each.agent for each in found.reasons]) == ((), ["own"])
    assert [each.agent for each in match(a_request(key="import e1"), catalog, {}).agents] == [
        "imported"
    ]


def test_who_names_a_reserved_agent_is_told_why_not() -> None:
    catalog = a_catalog(an_agent("imported", reserved_for="import e1"))
    (told,) = match(a_request(agents=["imported"]), catalog, {}).reasons
    assert told.reason == "is an import that plays back only its own evaluation"


def test_only_who_went_a_short_while_ago_is_named() -> None:
    gone = {
        name: an_agent(name, state="lost").model_copy(update={"since_ns": since_s * 10**9})
        for name, since_s in (("long", 1000), ("just", 1900))
    }
    catalog, now_ns = a_catalog(*gone.values()), 2000 * 10**9
    assert [each.agent for each in match(a_request(), catalog, {}, now_ns).reasons] == ["just"]
    named = match(a_request(agents=["long"]), catalog, {}, now_ns).reasons
    assert ("long", "lost: its lease is gone") in [(each.agent, each.reason) for each in named]
