"""What manifests ask of agents: hardware, software, containers; what models bring; placeholders."""

from typing import Any

import pytest
import yaml

from mlscope.manifests.digests import model_digests
from mlscope.manifests.fitting import disallowed_model
from schemas.agent import Hardware
from schemas.manifest import Assets, FrameworkManifest, HardwareManifest, SoftwareManifest
from schemas.plan import Plan
from schemas.request import Refused, SystemNeed
from schemas.status import AgentStatus
from services.scheduler.errors import RequestRefused
from services.scheduler.placement.containers import NOT_ALLOWED
from services.scheduler.placement.matching import match
from services.scheduler.placement.planning import plan
from services.scheduler.placement.requirements import (
    accelerator_mismatches,
    container_of,
    hardware_mismatches,
    image_mismatches,
    software_mismatches,
)
from tests.places import LISTINGS
from tests.services.scheduler.samples import (
    GIB,
    a_catalog,
    a_gpu,
    a_machine,
    a_model,
    a_request,
    a_runtime,
    an_agent,
)

BUILD = FrameworkManifest(
    name="onnxruntime",
    version="1.31.1",
    containers={"amd64": {"cpu": "own/ort:1", "gpu": "own/ort:1-gpu"}},
    defaults={"threads": 2, "graph_optimization": "basic"},
)
BOX = HardwareManifest(
    name="box",
    architecture="amd64",
    cpu={"model": "xeon e5", "cores": 4},
    accelerators=({"name": "h200", "memory_bytes": 100 * GIB, "count": 2},),
    interconnect="nvlink",
    memory_bytes=16 * GIB,
)
STACK = SoftwareManifest(
    name="stack",
    container="own/ort:1",
    packages={"onnxruntime": ">=1.30 <2", "python": "3.11.*"},
    environment={"OMP_NUM_THREADS": "1"},
)
FITTING = a_machine(
    architecture="x86_64",
    cpu_model="Intel(R) Xeon(R) E5".replace("(R)", ""),
    cores=8,
    memory_bytes=32 * GIB,
    interconnect="NVLink",
    accelerators=(a_gpu(), a_gpu()),
)


def reason(agent: AgentStatus, catalog: dict[str, Any] | None = None, **wanted: Any) -> str:
    """Return why an agent can't run a request; '' if it can."""
    found = match(a_request(**wanted), a_catalog(agent, **(catalog or {})), {})
    return "".join(each.reason for each in found.reasons)


def planned(agent: AgentStatus, catalog: dict[str, Any], **wanted: Any) -> Plan:
    """Return the plan of a request that an agent can run."""
    request, known = a_request(**wanted), a_catalog(agent, **catalog)
    return plan(request, match(request, known, {}), known)


def refused(catalog: dict[str, Any], **wanted: Any) -> Refused:
    """Return the refusal of a request."""
    with pytest.raises(RequestRefused) as told:
        match(a_request(**wanted), a_catalog(**catalog), {})
    return told.value.refused


def test_a_machine_that_has_all_of_a_hardware_manifest_fits() -> None:
    agent = an_agent(hardware=FITTING)
    found = planned(agent, {"hardware": (BOX,)}, system={"hardware": "box:>=1"})
    assert found.subject.hardware == BOX


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"architecture": "aarch64"}, "architecture aarch64, wanted amd64"),
        ({"cores": 2}, "2 cores, wanted 4"),
        ({"cpu_model": "AMD EPYC"}, "CPU AMD EPYC, wanted xeon e5"),
        ({"memory_bytes": 8 * GIB}, f"memory of {8 * GIB} bytes, wanted {16 * GIB}"),
        ({"interconnect": "pcie"}, "interconnect pcie, wanted nvlink"),
        ({"accelerators": (a_gpu(),)}, "NVIDIA H200, wanted accelerator name h200"),
        ({"accelerators": ()}, "no accelerator, wanted accelerator name h200"),
    ],
)
def test_what_a_machine_lacks_of_it_is_said(changes: dict[str, Any], found: str) -> None:
    agent = an_agent(hardware=FITTING.model_copy(update=changes))
    told = reason(agent, {"hardware": (BOX,)}, system={"hardware": "box"})
    assert told.startswith(f"hardware box: {found}")


def test_software_is_matched_by_image_and_versions() -> None:
    agent = an_agent(image="own/ort:1", python_version="3.11.7")
    inline = STACK.model_dump(mode="json")
    assert planned(agent, {}, system={"software": inline}).subject.software == STACK
    old = an_agent(runtimes=(a_runtime(version="1.20.0"),), python_version="3.12.1")
    assert reason(old, system={"software": inline}) == (
        "software stack: image not known, wanted own/ort:1; "
        "software stack: onnxruntime 1.20.0, wanted >=1.30 <2; "
        "software stack: python 3.12.1, wanted 3.11.*"
    )


def test_an_unknown_manifest_of_a_machine_is_refused_with_those_there_are() -> None:
    told = refused({"hardware": (BOX,)}, system={"hardware": "boks"})
    assert (told.error, told.field, told.allowed) == ("unknown", "system.hardware", "box")


def test_the_framework_manifest_gives_options_that_others_overrule() -> None:
    model = a_model(options={"graph_optimization": "all"})
    found = planned(an_agent(), {"frameworks": (BUILD,), "models": (model,)})
    assert found.subject.options == {"threads": 2, "graph_optimization": "all"}
    assert found.subject.framework_manifest == BUILD
    more = planned(an_agent(), {"frameworks": (BUILD,)}, options={"threads": 1})
    assert more.subject.options["threads"] == 1


def test_a_manifest_of_another_version_gives_nothing() -> None:
    other = BUILD.model_copy(update={"version": "1.30.0"})
    assert planned(an_agent(), {"frameworks": (other,)}).subject.framework_manifest is None


def test_of_two_manifests_the_one_with_the_agents_image_counts() -> None:
    other = BUILD.model_copy(
        update={"version": "1.31.1.0", "containers": {"x86_64": {"cpu": "far/ort:1"}}}
    )
    for image, wanted in (("far/ort:1", other), ("own/ort:1", BUILD)):
        found = planned(an_agent(image=image), {"frameworks": (BUILD, other)})
        assert found.subject.framework_manifest == wanted


@pytest.mark.parametrize(
    ("image", "wanted", "found"),
    [
        ("own/ort:1", "manifest", ""),
        ("own/ort:1", "own/ort:1", ""),
        ("own/ort:2", "", ""),
        (
            "own/ort:2",
            "manifest",
            "image own/ort:2, framework manifest onnxruntime 1.31.1 gives own/ort:1 for x86_64 cpu",
        ),
        ("", "own/ort:1", "image not known, wanted own/ort:1"),
    ],
)
def test_a_request_may_ask_for_the_very_image(image: str, wanted: str, found: str) -> None:
    agent = an_agent(image=image)
    told = reason(agent, {"frameworks": (BUILD,)}, system={"image": wanted})
    assert told == (f"{found}; {NOT_ALLOWED}" if found else "")


def test_the_papers_framework_matches_the_agent_in_its_image() -> None:
    text = (LISTINGS / "framework_manifest_listing2.yml").read_text()
    listing = FrameworkManifest.model_validate(yaml.safe_load(text))
    runtime = a_runtime(framework="tensorflow", version="1.15.0", devices=("cpu", "gpu"))
    model = a_model(framework={"name": "TensorFlow", "version": ">=1.12.0 <2.0"})
    more = {"frameworks": (listing,), "models": (model,)}
    wanted = {"image": "manifest", "device": "gpu"}
    agent = an_agent(runtimes=(runtime,), image="carml/tensorflow:1-15-0_amd64-gpu")
    assert reason(agent, more, system=wanted) == ""
    cpu = an_agent(runtimes=(runtime,), image="carml/tensorflow:1-15-0_amd64-cpu")
    assert "gives carml/tensorflow:1-15-0_amd64-gpu" in reason(cpu, more, system=wanted)


def test_code_runs_only_where_its_owner_allows_it() -> None:
    more = {"models": (a_model(preprocess="def fun(env, data):\n    return data\n"),)}
    told = reason(an_agent(), more)
    assert told == "runs no inline Python (MLSCOPE_ALLOW_INLINE_PYTHON is off there)"
    assert reason(an_agent(allows_inline_python=True), more) == ""


def test_an_agent_of_a_catalog_opens_no_other_model() -> None:
    own, other = a_model(), a_model(description="another's of this name and version")
    agent = an_agent(models=tuple(digest[:12] for digest in model_digests([own])))
    assert reason(agent, {"models": (own,)}) == ""
    told = "opens only models of its own catalog (MLSCOPE_MODELS=catalog there)"
    assert reason(agent, {"models": (other,)}) == told
    assert reason(agent, {"models": (own,)}, model=other) == told
    assert reason(an_agent(models=()), {"models": (own,)}) == told
    assert reason(an_agent(models=None), {"models": (other,)}) == ""


def test_an_agent_of_a_catalog_opens_no_file_that_nobody_verified() -> None:
    own = a_model(model=Assets(graph_path="https://models.example/m.onnx", unverifiable="moves"))
    agent = an_agent(models=tuple(digest[:12] for digest in model_digests([own])))
    unverified = {"options": {"weights": "unverified"}}
    told = reason(agent, {"models": (own,)}, **unverified)
    assert told == "opens only verified files (MLSCOPE_MODELS=catalog there)"
    assert reason(an_agent(), {"models": (own,)}, **unverified) == ""


def test_a_builder_runs_only_where_its_owner_allows_it() -> None:
    more = {"models": (a_model(model=Assets(builder="own.models.net")),)}
    assert reason(an_agent(builders=("timm",)), more) == (
        "builder own.models.net is not allowed there (MLSCOPE_BUILDERS: timm)"
    )
    assert reason(an_agent(builders=("own.models",)), more) == ""
    assert reason(an_agent(), more) == "", "an agent of before does not say"


def test_a_builder_of_release_0_1_runs_where_its_present_name_is_allowed() -> None:
    more = {"models": (a_model(model=Assets(builder="services.agent.networks.jax.espcn")),)}
    assert reason(an_agent(builders=("services.agent.predictors.networks",)), more) == ""


def test_what_a_listing_leaves_out_is_refused_where_it_is_used() -> None:
    text = (LISTINGS / "model_manifest_listing1.yml").read_text()
    listing = yaml.safe_load(text)
    told = refused({}, model=listing)
    assert (told.error, told.field, told.found) == ("invalid", "model.preprocess", "[[code]]")
    del listing["preprocess"], listing["postprocess"]
    told = refused({}, model=listing)
    assert (told.field, told.found) == ("model.model.checksum", "7b94a2da05d...23a46bc08886")
    listing["model"]["checksum"] = "md5:" + "0" * 32
    told = refused({}, model=listing)
    assert told.field == "model.outputs.0.steps.0.argsort.labels_url"


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"cpu_model": ""}, ["CPU unknown, wanted xeon e5"]),
        ({"interconnect": ""}, ["interconnect unknown, wanted nvlink"]),
        ({"memory_bytes": 16 * GIB}, []),
        ({"cores": 4}, []),
        (
            {"accelerators": (a_gpu(), a_gpu(memory_bytes=99 * GIB))},
            [f"NVIDIA H200, NVIDIA H200, wanted accelerator name h200, memory_bytes {100 * GIB}"],
        ),
    ],
)
def test_a_machine_has_what_it_says_and_no_more(changes: dict[str, Any], found: list[str]) -> None:
    told = hardware_mismatches(BOX, FITTING.model_copy(update=changes))
    assert [text.removesuffix(", count 2") for text in told] == [
        f"hardware box: {text}" for text in found
    ]


def test_a_manifest_that_requires_nothing_fits_any_machine() -> None:
    empty = HardwareManifest(name="any")
    assert list(hardware_mismatches(empty, Hardware(hostname="h", architecture="riscv"))) == []
    assert list(software_mismatches(SoftwareManifest(name="any"), an_agent().announcement)) == []


def test_a_package_of_no_known_version_is_told_as_such() -> None:
    need = SoftwareManifest(name="any", packages={"numpy": ">=2", "mlscope": "", "Python": "3.11"})
    agent = an_agent(python_version="3.11", image="own/ort:1").announcement
    assert list(software_mismatches(need, agent)) == [
        "software any: numpy not known, wanted >=2",
        "software any: mlscope not known, wanted any",
    ]


MIXED = a_machine(
    interconnect="",
    accelerators=(
        a_gpu(name="A100", memory_bytes=40 * GIB, interconnect="SXM"),
        a_gpu(name="A100 80GB", memory_bytes=80 * GIB, interconnect="PCIe"),
        a_gpu(name="L4", memory_bytes=24 * GIB, interconnect="CXL"),
    ),
)


@pytest.mark.parametrize(
    ("need", "found"),
    [
        ({}, []),
        ({"accelerator": "a100", "accelerator_memory_bytes": 80 * GIB}, []),
        ({"accelerator": "l4", "accelerator_memory_bytes": 24 * GIB}, []),
        ({"accelerator": "h200"}, ["A100, A100 80GB, L4, wanted accelerator h200"]),
        (
            {"accelerator": "l4", "accelerator_memory_bytes": 40 * GIB},
            ["accelerator memory 24.0 GiB, wanted 40.0 GiB"],
        ),
        ({"accelerator": "a100", "interconnect": "pcie"}, []),
        (
            {"accelerator": "a100", "interconnect": "cxl"},
            ["interconnect PCIe, SXM, wanted cxl"],
        ),
        ({"interconnect": "nvlink"}, ["interconnect CXL, PCIe, SXM, wanted nvlink"]),
    ],
)
def test_the_accelerators_that_have_the_name_are_asked_for_the_rest(
    need: dict[str, Any], found: list[str]
) -> None:
    assert list(accelerator_mismatches(MIXED, SystemNeed(**need))) == found


def test_a_machine_without_accelerators_has_no_memory_and_no_link_of_them() -> None:
    need = SystemNeed(accelerator_memory_bytes=GIB, interconnect="nvlink")
    assert list(accelerator_mismatches(a_machine(), need)) == [
        "accelerator memory unknown, wanted 1.0 GiB",
        "interconnect unknown, wanted nvlink",
    ]


@pytest.mark.parametrize(
    ("device", "image"),
    [
        ("cpu", "own/ort:1"),
        ("", "own/ort:1"),
        (" CPU ", "own/ort:1"),
        ("gpu", "own/ort:1-gpu"),
        ("cuda:1", "own/ort:1-gpu"),
        ("CUDA", "own/ort:1-cuda"),
        ("fpga", ""),
    ],
)
def test_a_build_has_an_image_for_the_device_else_for_its_kind(device: str, image: str) -> None:
    agent = an_agent(hardware=a_machine(architecture="x86_64")).announcement
    images = {"cpu": "own/ort:1", "gpu": "own/ort:1-gpu", "cuda": "own/ort:1-cuda"}
    build = BUILD.model_copy(update={"containers": {"arm64": {"cpu": "no"}, "amd64": images}})
    assert container_of(build, agent, device) == image


def test_a_build_without_an_image_for_an_agent_is_told() -> None:
    agent = an_agent(hardware=a_machine(architecture="riscv64")).announcement
    assert list(image_mismatches("manifest", agent, BUILD, "cpu")) == [
        "image not known, framework manifest onnxruntime 1.31.1 gives none for riscv64 cpu"
    ]
    assert list(image_mismatches("manifest", agent, None, "cpu")) == [
        "image not known, and no framework manifest of its version is published"
    ]


def test_an_agent_of_a_catalog_opens_verified_files_whatever_the_option_says() -> None:
    own = a_model(model=Assets(graph_path="tiny/model.onnx", checksum="sha256:ab"))
    agent = an_agent(models=tuple(digest[:12] for digest in model_digests([own]))).announcement
    assert list(disallowed_model(agent, own, {"weights": "unverified"})) == []
