"""The devices that requests name, against those that agents really announce."""

import pytest

from schemas.agent import Accelerator, Runtime
from schemas.manifest import FrameworkNeed
from services.agent.host import announcing
from services.agent.host.announcing import installed_runtimes
from services.scheduler.placement.matching import match
from tests.services.scheduler.samples import a_catalog, a_machine, a_model, a_request, an_agent

BUILD = ("onnxruntime-gpu", "1.23.0")


@pytest.fixture
def announced(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """Return what an agent announces of a build for GPUs on a machine that has one."""
    monkeypatch.setattr("services.agent.host.announcing.onnxruntime_build", lambda: BUILD)
    (runtime,) = installed_runtimes(("onnxruntime",), (Accelerator(name="any"),))
    return runtime


@pytest.mark.parametrize(
    ("vendor", "device", "fits"),
    [
        ("nvidia", "gpu", True),
        ("nvidia", "cuda", True),
        ("nvidia", " CUDA ", True),
        ("nvidia", "rocm", False),
        ("nvidia", "fpga", False),
        ("", "cuda", True),
        ("amd", "gpu", True),
        ("amd", "cuda", False),
        ("amd", "rocm", True),
    ],
)
def test_a_gpu_is_found_by_its_vendors_name(
    announced: Runtime, vendor: str, device: str, fits: bool
) -> None:
    machine = a_machine(accelerators=(Accelerator(name="G1", vendor=vendor),))
    agent = an_agent(hardware=machine, runtimes=(announced,))
    matched = match(a_request(system={"device": device}), a_catalog(agent), {})
    assert [candidate.device for candidate in matched.agents] == (["gpu"] if fits else [])


@pytest.mark.parametrize(
    ("vendors", "device", "fits"),
    [
        (("nvidia", "intel"), "xpu", False),
        (("amd", "nvidia"), "rocm", False),
        (("intel", "nvidia"), "cuda", True),
        (("intel", "nvidia"), "gpu", True),
        (("intel", "intel"), "xpu", True),
        (("intel", "amd"), "xpu", False),
    ],
)
def test_beside_another_vendors_gpu_a_name_means_its_own_vendor_alone(
    announced: Runtime, vendors: tuple[str, str], device: str, fits: bool
) -> None:
    gpus = tuple(Accelerator(name=vendor, vendor=vendor) for vendor in vendors)
    agent = an_agent(hardware=a_machine(accelerators=gpus), runtimes=(announced,))
    matched = match(a_request(system={"device": device}), a_catalog(agent), {})
    assert [candidate.device for candidate in matched.agents] == (["gpu"] if fits else [])


def test_a_runtime_without_a_device_says_why() -> None:
    runtime = Runtime(
        framework="onnxruntime", version="1.20", devices=(), device_reason="no driver"
    )
    matched = match(
        a_request(system={"device": "fpga"}), a_catalog(an_agent(runtimes=(runtime,))), {}
    )
    assert [each.reason for each in matched.reasons] == [
        "onnxruntime serves no device (no driver), wanted device fpga"
    ]


def test_a_board_of_another_kind_is_no_gpu(announced: Runtime) -> None:
    board = Accelerator(name="board", kind="fpga")
    (runtime,) = installed_runtimes(("onnxruntime",), (board,))
    assert runtime.devices == ("cpu",)


@pytest.mark.parametrize(
    ("vendor", "build", "wanted"),
    [
        ("amd", "2.9.0+rocm6.4", ("rocm", "gpu")),
        ("intel", "2.9.0+xpu", ("xpu", "gpu")),
        ("apple", "2.9.0", ("mps", "gpu")),
        ("nvidia", "2.9.0+cu128", ("cuda", "gpu")),
    ],
)
def test_pytorch_is_requested_by_the_names_of_vendors(
    vendor: str, build: str, wanted: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcing, "package_version", lambda name: {"torch": build}.get(name, ""))
    machine = a_machine(accelerators=(Accelerator(name="G1", vendor=vendor),))
    runtimes = tuple(installed_runtimes(("pytorch",), machine.accelerators))
    catalog = a_catalog(
        an_agent(hardware=machine, runtimes=runtimes),
        models=(a_model(framework=FrameworkNeed(name="pytorch")),),
    )
    devices = ("cuda", "rocm", "xpu", "mps", "gpu")
    fitting = [
        own for own in devices if match(a_request(system={"device": own}), catalog, {}).agents
    ]
    assert sorted(fitting) == sorted(wanted)
