"""From names to manifests."""

from typing import Any

import pytest

from mlscope.manifests.checking import faults_in
from mlscope.manifests.variants import variants_of
from schemas.agent import CollectorFacts
from schemas.level import Level
from schemas.manifest import (
    Assets,
    DatasetManifest,
    FrameworkManifest,
    FrameworkNeed,
    HardwareManifest,
    ModelManifest,
    Port,
    Sample,
    SoftwareManifest,
    Synthetic,
    Variant,
)
from schemas.plan import Subject
from schemas.request import Refused, SystemNeed
from schemas.status import AgentStatus, Catalog
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.resolving import (
    check_collectors,
    dataset_of,
    described_system,
    model_of,
    planned_frameworks,
    planned_system,
    samples_of,
    similar_names,
    verifiable,
    wanted_variants,
)
from tests.services.scheduler.samples import (
    a_catalog,
    a_dataset,
    a_model,
    a_request,
    an_agent,
)


def refusal(catalog: Catalog, **wanted: Any) -> Refused:
    """Return why a request's model or dataset is not found."""
    request = a_request(**wanted)
    with pytest.raises(RequestRefused) as refused:
        dataset_of(request, model_of(request, catalog), catalog)
    return refused.value.refused


VERSIONS = tuple(a_model(version=version) for version in ("1.2.0", "1.10.0", "2.0.0rc1"))


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("tiny", "2.0.0rc1"),
        ("TINY", "2.0.0rc1"),
        ("tiny:", "2.0.0rc1"),
        (" tiny : 1.2.0 ", "1.2.0"),
        ("tiny:<2.0.0rc1", "1.10.0"),
        ("tiny:>=1 <1.5", "1.2.0"),
        ("tiny:1.*", "1.10.0"),
    ],
)
def test_a_name_means_its_newest_version_that_fits(text: str, version: str) -> None:
    found = model_of(a_request(model=text), a_catalog(models=VERSIONS))
    assert found.version == version


@pytest.mark.parametrize(
    ("text", "error"),
    [("", "unknown"), (":1.0", "unknown"), ("tiny:>=9", "unknown"), ("tiny:=>1", "invalid")],
)
def test_what_names_no_model_is_refused(text: str, error: str) -> None:
    refused = refusal(a_catalog(models=VERSIONS), model=text)
    assert (refused.error, refused.field) == (error, "model")


@pytest.mark.parametrize(
    ("name", "known", "found"),
    [
        ("resnet", ["ResNet50", "tiny"], ["ResNet50"]),
        ("zzz", ["b", "a"], []),
        ("fast", ["fasd", "a-fast-one"], ["fasd", "a-fast-one"]),
        ("a", ["a-long-name"], []),
        ("x", [], []),
        (
            "resnet50",
            ["keras-resnet50", "timm-nf-resnet50", "timm-resnest50d", "torchvision-resnet50"],
            ["keras-resnet50", "torchvision-resnet50", "timm-resnest50d", "timm-nf-resnet50"],
        ),
        ("mobilenet_v2", ["t-mobilenet-v2", "t-mobilenets"], ["t-mobilenet-v2", "t-mobilenets"]),
    ],
)
def test_names_near_one(name: str, known: list[str], found: list[str]) -> None:
    assert similar_names(name, known) == found


def test_names_that_are_there_are_not_called_similar() -> None:
    refused = refusal(a_catalog(models=VERSIONS), model="zzz")
    assert refused.message == "model: nothing is named 'zzz'; known names: tiny"


@pytest.mark.parametrize("name", ["..", ".", "a/../b", "../../etc", "a/ .. /b", "a\nb", "a\x00"])
def test_a_name_that_leads_elsewhere_is_refused(name: str) -> None:
    model = a_model().model_copy(update={"name": name})
    with pytest.raises(RequestRefused) as caught:
        model_of(a_request(model=model), a_catalog())
    assert caught.value.refused.field == "model.name"
    assert [fault.field for fault in faults_in(model)] == ["name"]


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": " "}, "model.name"),
        ({"framework": FrameworkNeed(name="onnxruntim")}, "model.framework.name"),
        ({"framework": FrameworkNeed(name="")}, "model.framework.name"),
        ({"inputs": (Port(type="tensr"),)}, "model.inputs.0.type"),
    ],
)
def test_a_sent_name_that_nothing_matches_is_refused(changes: dict[str, Any], field: str) -> None:
    refused = refusal(a_catalog(), model=a_model().model_copy(update=changes))
    assert (refused.error, refused.field) == ("invalid", field)


def test_a_sent_manifest_may_have_a_name_that_no_request_writes() -> None:
    dataset = a_dataset().model_copy(update={"name": "my photos"})
    model = a_model().model_copy(update={"name": "my trace"})
    request = a_request(model=model, dataset=dataset)
    assert model_of(request, a_catalog()).name == "my trace"
    assert dataset_of(request, model, a_catalog()).name == "my photos"


def test_a_sent_dataset_has_a_name() -> None:
    dataset = a_dataset().model_copy(update={"name": " "})
    assert refusal(a_catalog(), model=a_model(), dataset=dataset).field == "dataset.name"


def test_samples_are_counted() -> None:
    assert samples_of(a_dataset()) == 64
    files = tuple(Sample(path=f"{number}.jpg", sha256="0") for number in range(3))
    assert samples_of(DatasetManifest(name="photos", samples=files)) == 3


def test_a_model_that_names_no_dataset_and_takes_no_noise_is_told_so() -> None:
    unshaped = a_model(dataset="", inputs=(Port(type="text"),))
    refused = refusal(a_catalog(models=(unshaped,)))
    assert refused.field == "dataset"
    assert "model tiny has no default" in refused.allowed


@pytest.mark.parametrize(("shape", "fits"), [((4, 8), True), ((4, 9), False), ((4,), False)])
def test_an_open_dimension_takes_any_size(shape: tuple[int, ...], fits: bool) -> None:
    model = a_model(inputs=(Port(type="raw", shape=(-1, -1, 8)),))
    given = DatasetManifest(name="noise", synthetic=Synthetic(shape=shape))
    catalog = a_catalog(models=(model,))
    if fits:
        assert dataset_of(a_request(dataset=given), model, catalog) == given
    else:
        refused = refusal(catalog, dataset=given)
        assert refused.found == f"noise of shape {list(shape)}"


FROM_HUB = Assets(base_url="hf://o/r@main/", weights_path="w.safetensors", builder="a.b")
FROM_SHELF = Assets(graph_path="tiny/model.onnx", checksum="sha256:ab")


def on_two(first: Assets, second: Assets, **changes: Any) -> ModelManifest:
    """Return a model for two frameworks."""
    other = Variant(name="pytorch", model=second)
    return a_model(model=first, frameworks=(other,), **changes)


@pytest.mark.parametrize("options", [{"weights": "random"}, {"weights": "unverified"}])
def test_weights_of_a_branch_are_used_only_on_request(options: dict[str, Any]) -> None:
    (model,) = variants_of(a_model(model=FROM_HUB))
    assert verifiable([model], a_request(options=options)) == [model]
    with pytest.raises(RequestRefused) as told:
        verifiable([model], a_request())
    refused = told.value.refused
    assert (refused.error, refused.field) == ("invalid", "options.weights")
    for word in ("unverified", "random", "hf://o/r@main/w.safetensors", "weights_checksum"):
        assert word in refused.allowed


def test_the_variant_that_can_be_verified_is_taken() -> None:
    one, other = variants_of(on_two(FROM_HUB, FROM_SHELF))
    assert verifiable([one, other], a_request()) == [other]
    assert verifiable([one, other], a_request(options={"weights": "unverified"})) == [one, other]


BOX = HardwareManifest(name="box", memory_bytes=1)
NEW_BOX = HardwareManifest(name="box", version="2.0.0", memory_bytes=2)
STACK = SoftwareManifest(name="stack", container="own/ort:1")


def test_the_manifests_that_a_need_names_take_their_names_places() -> None:
    catalog = a_catalog(hardware=(BOX, NEW_BOX), software=(STACK,))
    need = SystemNeed(device="cpu", hardware="box", software="stack")
    described = described_system(need, catalog)
    assert described == SystemNeed(device="cpu", hardware=NEW_BOX, software=STACK)
    assert described_system(SystemNeed(hardware="BOX:<2"), catalog).hardware == BOX
    own = SystemNeed(hardware=BOX, memory_bytes=5)
    assert described_system(own, a_catalog()) is own


@pytest.mark.parametrize("field", ["hardware", "software"])
def test_a_need_of_an_unknown_manifest_is_refused_by_its_field(field: str) -> None:
    with pytest.raises(RequestRefused) as told:
        described_system(SystemNeed.model_validate({field: "boks"}), a_catalog(hardware=(BOX,)))
    assert told.value.refused.field == f"system.{field}"


def a_subject(**changes: Any) -> Subject:
    known = {"model": a_model(), "dataset": a_dataset(), "framework": "onnxruntime"}
    return Subject.model_validate(known | changes)


def test_a_plan_keeps_the_manifests_it_was_made_with() -> None:
    need = SystemNeed(device="cpu", hardware="box", software="stack")
    planned = planned_system(need, a_subject(hardware=BOX, software=STACK))
    assert planned == SystemNeed(device="cpu", hardware=BOX, software=STACK)
    assert planned_system(need, a_subject(software=STACK)).hardware == "box"


def test_a_plans_own_build_stands_for_its_published_namesake() -> None:
    old, new, other = (
        FrameworkManifest(name=name, version=version)
        for name, version in (("ort", "1.0"), ("ort", "2.0"), ("torch", "1.0"))
    )
    own = FrameworkManifest(name="ORT", version="1.0", defaults={"threads": 2})
    catalog = a_catalog(frameworks=(old, new, other))
    assert planned_frameworks(a_subject(framework_manifest=own), catalog) == (own, new, other)
    assert planned_frameworks(a_subject(), catalog) == (old, new, other)


PERF = CollectorFacts(name="perf", levels=(Level.HARDWARE, Level.SYSTEM))
NVML = CollectorFacts(name="nvml")


def collector_refusal(*agents: AgentStatus, **wanted: Any) -> Refused | None:
    """Return why the collectors of a request are refused; None where they are not."""
    try:
        check_collectors(a_request(**wanted), a_catalog(*agents))
    except RequestRefused as told:
        return told.refused
    return None


def test_a_collector_that_no_agent_has_is_refused_with_those_there_are() -> None:
    agents = an_agent("a1", collectors=(PERF,)), an_agent("a2", collectors=(NVML,))
    assert collector_refusal(*agents, collectors={"nvml": True}) is None
    refused = collector_refusal(*agents, collectors={"nvlm": True})
    assert refused is not None
    assert (refused.error, refused.field) == ("unknown", "collectors.nvlm")
    assert "nvml" in refused.message


@pytest.mark.parametrize("silent", [(), (an_agent("a2"),)], ids=["no agent", "an older one"])
def test_what_agents_do_not_announce_they_may_have(silent: tuple[AgentStatus, ...]) -> None:
    agents = (an_agent("a1", collectors=(PERF,)), *silent) if silent else ()
    catalog = a_catalog().model_copy(update={"agents": agents})
    check_collectors(a_request(collectors={"own": True}), catalog)


@pytest.mark.parametrize(
    ("switch", "level", "is_refused"),
    [
        (True, "framework", True),
        ({"events": "cycles"}, "framework", True),
        (False, "framework", False),
        (True, "system", False),
        (True, "hardware", False),
    ],
)
def test_a_collector_begins_at_the_least_of_its_levels(
    switch: Any, level: str, is_refused: bool
) -> None:
    agent = an_agent(collectors=(PERF, NVML))
    refused = collector_refusal(agent, collectors={"perf": switch}, trace_level=level)
    assert (refused is not None) is is_refused
    if refused is not None:
        assert (refused.field, refused.found) == ("trace_level", level)
        assert refused.allowed == "trace_level system or deeper, where perf begins"


def test_another_requests_reserved_agent_says_nothing_of_collectors() -> None:
    reserved = an_agent("a2", collectors=(NVML,), reserved_for="k1")
    agents = an_agent("a1", collectors=(PERF,)), reserved
    assert collector_refusal(*agents, collectors={"nvml": True}) is not None
    # An import plays back what was collected elsewhere.
    assert collector_refusal(*agents, collectors={"nvml": True}, key="k1") is None


def test_at_most_five_similar_names_are_proposed_and_those_spelt_alike_first() -> None:
    known = [f"resnet{n}" for n in range(4)] + ["my-resnet9-large", "resnet9b", "tony"]
    found = similar_names("resnet9", known)
    assert (len(found), found[0]) == (5, "resnet9b")
    assert similar_names("resnet9", ["tony", "my-resnet9-very-much-larger"]) == [
        "my-resnet9-very-much-larger"
    ]


def test_noise_for_a_model_has_its_element_type() -> None:
    model = a_model(dataset="", inputs=(Port(type="raw", shape=(-1, 3), element_type="int64"),))
    noise = dataset_of(a_request(), model, a_catalog()).synthetic
    assert noise == Synthetic(shape=(3,), element_type="int64")


@pytest.mark.parametrize("shape", [(), (-1,), (-1, 0), (-1, 4, -1)])
def test_a_model_of_unknown_shape_takes_no_noise(shape: tuple[int, ...]) -> None:
    model = a_model(dataset="", inputs=(Port(type="raw", shape=shape),))
    assert "has no default" in refusal(a_catalog(models=(model,))).allowed


def test_a_source_that_does_not_say_how_many_samples_it_has_is_taken() -> None:
    source = {"reader": "folder", "address": "pictures"}
    unknown = DatasetManifest.model_validate({"name": "own", "source": source})
    assert samples_of(unknown) == 0
    assert dataset_of(a_request(dataset=unknown), a_model(), a_catalog()) == unknown
    counted = DatasetManifest.model_validate({"name": "own", "source": source | {"samples": 7}})
    assert samples_of(counted) == 7


def test_the_dataset_of_a_request_goes_before_the_models() -> None:
    catalog = a_catalog(datasets=(a_dataset(), a_dataset("own"), a_dataset("photos", (4,))))
    assert dataset_of(a_request(), a_model(), catalog).name == "vectors"
    assert dataset_of(a_request(dataset="own"), a_model(), catalog).name == "own"
    pictures = a_model(dataset="", inputs=(Port(type="image", shape=(-1, 4)),))
    assert dataset_of(a_request(), pictures, catalog).name == "photos"


def test_a_model_whose_steps_make_its_shape_takes_samples_of_any() -> None:
    steps = ({"normalize": {"mean": [0.5]}},)
    port = Port.model_validate({"type": "raw", "shape": (-1, 4), "steps": steps})
    noise = a_dataset(shape=(9, 9))
    assert dataset_of(a_request(dataset=noise), a_model(inputs=(port,)), a_catalog()) == noise
    unshaped = a_model(inputs=(Port(type="raw"),))
    assert dataset_of(a_request(dataset=noise), unshaped, a_catalog()) == noise


@pytest.mark.parametrize(("name", "count"), [("", 2), (" ", 2), ("PyTorch", 1)])
def test_a_framework_without_a_name_is_any(name: str, count: int) -> None:
    request = a_request(framework={"name": name})
    assert len(wanted_variants(request, on_two(FROM_SHELF, FROM_SHELF))) == count


def test_a_framework_that_a_model_has_not_is_refused_with_those_it_has() -> None:
    with pytest.raises(RequestRefused) as caught:
        wanted_variants(a_request(framework={"name": "jax"}), on_two(FROM_SHELF, FROM_SHELF))
    refused = caught.value.refused
    assert (refused.field, refused.allowed) == (
        "framework.name",
        "onnxruntime, pytorch, as tiny needs",
    )
