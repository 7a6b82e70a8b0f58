"""What an agent says that it can run."""

import subprocess
import sys
from importlib.metadata import EntryPoint

import onnxruntime as ort
import pytest

from schemas.agent import Accelerator
from schemas.level import Level
from services.agent.host.announcing import announcement, gpus_served, installed_runtimes
from services.agent.link.allowances import Allowances, InlineLimits
from services.agent.machine.hardware import package_version
from services.agent.machine.packages import onnxruntime_build
from services.agent.predictors import devices
from services.agent.predictors.options import OPTION_NAMES
from tests.services.agent.builders import MANIFESTS


def test_an_installed_framework_is_offered_with_its_version() -> None:
    (runtime,) = [r for r in installed_runtimes((), ()) if r.framework == "onnxruntime"]
    assert runtime.version == ort.__version__
    assert runtime.deepest_level == Level.FRAMEWORK
    assert "cpu" in runtime.devices
    assert runtime.options == OPTION_NAMES["onnxruntime"]


@pytest.mark.parametrize("framework", ["openvino", "tensorrt", "unheard-of"])
def test_a_shipped_predictor_without_its_package_is_not_offered(
    monkeypatch: pytest.MonkeyPatch, framework: str
) -> None:
    monkeypatch.setattr("services.agent.host.announcing.predictor_names", lambda: (framework,))
    monkeypatch.setattr(
        "services.agent.host.announcing.SHIPPED", {framework: "some.module:open_model"}
    )
    monkeypatch.setattr("services.agent.host.announcing.package_version", lambda _: "")
    assert list(installed_runtimes((), ())) == []


def test_a_predictor_of_another_package_needs_no_distribution(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("services.agent.host.announcing.predictor_names", lambda: ("own",))
    assert [each.framework for each in installed_runtimes((), ())] == ["own"]


def test_only_wanted_predictors_are_offered() -> None:
    assert list(installed_runtimes(("none-such",), ())) == []


def test_a_gpu_needs_a_build_for_it() -> None:
    gpu = Accelerator(name="H200")
    (runtime,) = installed_runtimes(("onnxruntime",), (gpu,))
    build = onnxruntime_build()
    assert build is not None
    assert ("gpu" in runtime.devices) == (build[0] == "onnxruntime-gpu")


@pytest.mark.parametrize(
    ("distribution", "version", "expected"),
    [
        ("torch", "2.9.0", {"nvidia": "gpu", "apple": "mps"}),
        ("torch", "2.9.0+cu128", {"nvidia": "gpu", "apple": "mps"}),
        ("torch", "2.9.0+cpu", {}),
        ("torch", "2.9.0+rocm6.4", {"amd": "rocm"}),
        ("torch", "2.9.0+xpu", {"intel": "xpu"}),
        ("onnxruntime-gpu", "1.23.0", {"nvidia": "gpu"}),
        ("onnxruntime", "1.23.0", {}),
        ("openvino", "2025.3.0", {}),
    ],
)
def test_a_build_says_by_name_or_version_whose_gpus_it_serves(
    distribution: str, version: str, expected: dict[str, str]
) -> None:
    assert gpus_served(distribution, version) == expected


@pytest.mark.parametrize(
    ("version", "maker", "devices"),
    [
        ("2.9.0+rocm6.4", "amd", ("cpu", "rocm")),
        ("2.9.0+rocm6.4", "nvidia", ("cpu",)),
        ("2.9.0+xpu", "intel", ("cpu", "xpu")),
        ("2.9.0", "apple", ("cpu", "mps")),
        ("2.9.0", "amd", ("cpu",)),
        ("2.9.0", "", ("cpu", "gpu")),
    ],
)
def test_a_build_is_offered_on_the_gpus_of_its_maker(
    version: str, maker: str, devices: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "services.agent.host.announcing.package_version",
        lambda name: version if name == "torch" else "",
    )
    (runtime,) = installed_runtimes(("pytorch",), (Accelerator(name="own", vendor=maker),))
    assert runtime.devices == devices


@pytest.mark.parametrize(
    ("build", "version", "devices"),
    [
        (("onnxruntime-gpu", "1.31.1"), "1.31.1", ("cpu", "gpu")),
        (("onnxruntime", "1.30.0"), "1.30.0", ("cpu",)),
        (None, "1.31.1", ("cpu", "gpu")),
    ],
)
def test_of_two_onnxruntimes_the_one_whose_files_are_there_is_offered(
    build: tuple[str, str] | None,
    version: str,
    devices: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A package that requires the one for CPUs brings it along; their files are at one place."""
    versions = {"onnxruntime": "1.30.0", "onnxruntime-gpu": "1.31.1"}
    monkeypatch.setattr(
        "services.agent.host.announcing.package_version", lambda name: versions.get(name, "")
    )
    monkeypatch.setattr("services.agent.host.announcing.onnxruntime_build", lambda: build)
    (runtime,) = installed_runtimes(("onnxruntime",), (Accelerator(name="H200"),))
    assert (runtime.version, runtime.devices) == (version, devices)


@pytest.mark.parametrize("plugins", [(), ("jax-cuda12-plugin",), ("jax-cuda13-plugin",)])
def test_jax_serves_a_gpu_with_a_plugin(
    monkeypatch: pytest.MonkeyPatch, plugins: tuple[str, ...]
) -> None:
    monkeypatch.setattr(
        "services.agent.host.announcing.package_version",
        lambda name: "0.7.0" if name in plugins else "",
    )
    assert bool(gpus_served("jax", "0.7.0")) is bool(plugins)


def test_pytorch_without_cuda_serves_no_gpu() -> None:
    (runtime,) = installed_runtimes(("pytorch",), (Accelerator(name="H200"),))
    assert ("gpu" in runtime.devices) == (not package_version("torch").endswith("+cpu"))


def declaring(
    monkeypatch: pytest.MonkeyPatch, framework: str, code: str, group: str = devices.GROUP
) -> None:
    """Let a package declare the devices of a framework, or what else a `group` has, by code."""
    points = {group: {framework: EntryPoint(framework, code, group)}}
    monkeypatch.setattr(devices, "plug_ins", lambda name: points.get(name, {}))
    monkeypatch.setattr("services.agent.host.announcing.predictor_names", lambda: (framework,))


def two_boards() -> dict[str, list[Accelerator]]:
    return {"NPU": [Accelerator(name="board", kind="npu")] * 2}


def broken() -> dict[str, list[Accelerator]]:
    raise OSError("no driver")


def test_a_predictor_is_offered_on_the_devices_that_its_package_finds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    declaring(monkeypatch, "own", f"{__name__}:two_boards")
    said = announcement("a1", "i1")
    (runtime,) = said.runtimes
    assert (runtime.devices, runtime.device_reason) == (("npu",), "")
    own = [each for each in said.hardware.accelerators if each.kind == "npu"]
    assert [each.name for each in own] == ["board", "board"]


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (f"{__name__}:broken", "no driver"),
        ("builtins:dict", "its package finds no device here"),
        ("no_such_package:find", "No module named 'no_such_package'"),
    ],
)
def test_devices_that_cannot_be_found_are_announced_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, code: str, reason: str
) -> None:
    declaring(monkeypatch, "own", code)
    (runtime,) = announcement("a1", "i1").runtimes
    assert (runtime.devices, runtime.device_reason) == ((), reason)


@pytest.mark.parametrize(
    ("code", "level"),
    [
        ("schemas.level:Level.FRAMEWORK", Level.FRAMEWORK),
        ("builtins:dict", Level.MODEL),
        ("no_such_package:LEVEL", Level.MODEL),
    ],
)
def test_a_predictor_is_traced_as_deeply_as_its_package_declares(
    monkeypatch: pytest.MonkeyPatch, code: str, level: Level
) -> None:
    declaring(monkeypatch, "own", code, devices.LEVELS)
    (runtime,) = announcement("a1", "i1").runtimes
    assert runtime.deepest_level == level


def test_an_announcement_carries_what_the_owner_said() -> None:
    allowed = Allowances(InlineLimits(), builders=("own.models",), remote_hosts=("far",))
    said = announcement("a1", "i1", image="img", labels={"k": "v"}, allowances=allowed)
    assert (said.agent, said.incarnation, said.image) == ("a1", "i1", "img")
    assert (said.labels, said.allows_inline_python) == ({"k": "v"}, True)
    assert (said.builders, said.remote_hosts) == (("own.models",), ("far",))
    assert announcement("a1", "i1").allows_inline_python is False


def test_no_framework_is_imported_to_know_of_it() -> None:
    script = (
        "import sys; from services.agent.host.announcing import announcement;"
        "announcement('a', 'i'); print('onnxruntime' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=MANIFESTS.parent, capture_output=True, text=True
    )
    assert done.stdout.strip() == "False", done.stderr


def test_other_machines_are_asked_only_when_named() -> None:
    assert "remote" not in [each.framework for each in installed_runtimes((), ())]
    assert [each.framework for each in installed_runtimes(("remote",), ())] == ["remote"]
