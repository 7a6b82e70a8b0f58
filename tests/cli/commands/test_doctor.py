"""`mlscope doctor`: what it says is so, and what is missing says how to get it."""

import importlib.metadata
import json
import os
import platform
import shutil
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from cli import agent_checks, exits, machine_checks
from cli.commands.doctor import finding_lines
from cli.findings import Finding
from cli.machine_checks import all_findings
from schemas.agent import PackageFacts
from services.agent.fetching import host_watch
from services.agent.machine.landlock import landlock_version
from services.agent.predictors import SHIPPED
from services.agent.predictors.verified import UNVERIFIED_ON_GPU
from tests.cli.conftest import CommandLine
from tests.mlscope.assets.conftest import site
from tests.mlscope.assets.web_server import Site
from tests.services.agent.host.containers.engines import engine_on_the_path
from tests.services.agent.worker.sandbox.test_own_user import needs_root

__all__ = ["site"]

ROOT = Path(__file__).parents[3]


def findings() -> dict[str, Finding]:
    return {each.check: each for each in all_findings()}


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path))


def test_what_it_finds_is_what_is_there(tmp_path: Path) -> None:
    found = findings()
    assert found["python"].observation == platform.python_version()
    assert importlib.metadata.version("onnxruntime") in found["framework onnxruntime"].observation
    assert found["cores"].observation.startswith(f"{len(os.sched_getaffinity(0))} usable")
    assert str(tmp_path) in found["disk"].observation
    assert found["nats-server"].state == found["postgres"].state == "ok"


def test_a_busy_machine_is_no_place_to_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(4)))
    states = []
    for load in (3.9, 4.1):
        monkeypatch.setattr("os.getloadavg", lambda load=load: (load, load, load))
        states.append(next(machine_checks.cores()).state)
    assert states == ["ok", "note"]


@pytest.mark.parametrize(("setting", "state"), [("auto", "note"), ("required", "missing")])
def test_what_a_sandbox_lacks_is_said(
    monkeypatch: pytest.MonkeyPatch, setting: str, state: str
) -> None:
    monkeypatch.setattr("services.agent.worker.seccomp.installing.MACHINES", {})
    monkeypatch.setenv("MLSCOPE_SANDBOX", setting)
    finding = agent_checks.sandbox()
    assert finding.state == state
    assert "no filter of system calls (seccomp): Linux on" in finding.observation
    assert setting == "required" or not landlock_version() or "with seccomp on" in finding.advice


@pytest.mark.parametrize(("setting", "state"), [("auto", "note"), ("required", "missing")])
def test_a_kernel_without_landlock_is_said(
    monkeypatch: pytest.MonkeyPatch, setting: str, state: str
) -> None:
    for module in ("cli.agent_checks", "services.agent.worker.sandbox.sandbox"):
        monkeypatch.setattr(f"{module}.landlock_version", lambda: 0)
    monkeypatch.setenv("MLSCOPE_SANDBOX", setting)
    finding = agent_checks.sandbox()
    assert finding.state == state
    assert "this kernel has no Landlock" in finding.observation
    advice = "does not start" if setting == "required" else "read and write the agent's files"
    assert advice in finding.advice


@pytest.mark.parametrize("framework", ["tensorflow", "tensorrt"])
def test_gpu_paths_nobody_ran_are_unverified(framework: str) -> None:
    finding = findings()[f"gpu {framework}"]
    assert finding.state == "unverified"
    assert "never run on a GPU" in finding.observation
    assert f"gpu {framework} " in "\n".join(finding_lines([finding]))


def test_what_is_unverified_is_said_beside_the_predictors_too() -> None:
    text = (ROOT / "services/agent/predictors/README.md").read_text("utf-8")
    assert set(UNVERIFIED_ON_GPU) <= set(SHIPPED)
    for framework in SHIPPED:
        paths = (f"`{framework}.py`", f"`{framework}/predictor.py`")
        (line,) = (row for row in text.splitlines() if any(path in row for path in paths))
        assert ("*unverified*" in line) == (framework in UNVERIFIED_ON_GPU)
    assert "| MXNet, Caffe, Caffe2, CNTK | Through ONNX" in text


def test_whatever_is_not_well_says_what_to_do() -> None:
    assert [f for f in findings().values() if f.state != "ok" and not f.advice] == []


@pytest.mark.parametrize(
    ("sources", "paranoid", "state", "said"),
    [
        (("software", "msr"), "2", "note", "virtual machine"),
        (("software", "cpu"), "2", "ok", ""),
        (("cpu_core",), "4", "note", "sysctl kernel.perf_event_paranoid=2"),
        (("armv8_pmuv3_0",), "1", "ok", ""),
        ((), "", "note", "Linux"),
    ],
)
def test_counters_are_there_when_the_processor_shows_them(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sources: tuple[str, ...],
    paranoid: str,
    state: str,
    said: str,
) -> None:
    for name in sources:
        (tmp_path / "devices" / name).mkdir(parents=True)
    (tmp_path / "paranoid").write_text(paranoid)
    monkeypatch.setattr(machine_checks, "_EVENT_SOURCES", tmp_path / "devices")
    monkeypatch.setattr(machine_checks, "_PARANOID", tmp_path / "paranoid")
    finding = findings()["hardware counters"]
    assert (finding.state, said in finding.advice) == (state, True)


def test_a_clock_nobody_tells_of_is_not_called_good(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_checks, "_GOVERNOR", tmp_path / "none")
    assert findings()["cpu clock"].state == "note"
    (tmp_path / "governor").write_text("powersave\n")
    monkeypatch.setattr(machine_checks, "_GOVERNOR", tmp_path / "governor")
    assert "cpupower" in findings()["cpu clock"].advice


def test_too_little_disk_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage("/")._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    disk = findings()["disk"]
    assert (disk.state, "MLSCOPE_DATA" in disk.advice) == ("missing", True)


def test_a_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["msgpack>=1.1", "no-such-thing>=3; extra == 'services'", "numpy>=9999"]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: wanted)
    found = findings()
    assert (found["packages"].state, found["packages"].observation) == ("missing", "without numpy")
    assert found["packages[services]"].advice == "pip install 'mlscope[services]'"


def test_advice_stands_below_its_finding() -> None:
    lines = finding_lines(
        [Finding("a", "missing", "not found", "get it"), Finding("bc", "ok", "1")]
    )
    assert lines == [
        "check  state    found",
        "a      missing  not found",
        "    get it",
        "bc     ok       1",
    ]


async def test_json_is_a_list_and_the_code_says_whether_all_is_there(
    mlscope_alone: CommandLine,
) -> None:
    ended = await mlscope_alone("doctor", "-o", "json")
    states = {each["state"] for each in json.loads(ended.out)}
    assert ended.code == (exits.FAILED if "missing" in states else exits.OK)


@pytest.fixture
def mlscope_alone(tmp_path: Path) -> CommandLine:
    return CommandLine(MLSCOPE_DATA=str(tmp_path))


def test_a_torchvision_of_another_build_is_said_with_how_to_mend_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = "torchvision 9.8 is built for CUDA, and torch 9.9+cpu is not: pip install torchvision"
    monkeypatch.setattr(
        "services.agent.machine.packages.package_facts",
        lambda _: [PackageFacts(name="torchvision", reason=reason), PackageFacts(name="PIL")],
    )
    torchvision, pillow = machine_checks.model_packages()
    assert (torchvision.state, torchvision.advice) == ("note", "pip install torchvision")
    assert torchvision.observation == "torchvision 9.8 is built for CUDA, and torch 9.9+cpu is not"
    assert pillow.state == "ok"


def test_of_two_onnxruntimes_the_one_whose_files_are_there_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    build = ("onnxruntime", "1.30.0")
    monkeypatch.setattr("services.agent.machine.packages.onnxruntime_build", lambda: build)
    monkeypatch.setattr("services.agent.machine.hardware.package_version", lambda _: "1.31.1")
    (both,) = [own for own in machine_checks.frameworks() if own.check.startswith("onnxruntime")]
    assert (both.state, both.check) == ("note", "onnxruntime and onnxruntime-gpu")
    assert both.observation == "both are installed, and the files are of onnxruntime"
    assert both.advice.endswith("pip install --force-reinstall --no-deps onnxruntime-gpu")


def test_a_builder_s_package_that_no_extra_installs_is_not_said_to_be_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "services.agent.machine.packages.package_facts",
        lambda _: [PackageFacts(name="own_models", reason="not installed")],
    )
    (package,) = machine_checks.model_packages()
    assert (package.state, package.observation, package.advice) == ("note", "not installed", "")


@pytest.mark.parametrize(
    ("installed", "half"),
    [
        ({"torch", "safetensors", "efficientnet-lite-pytorch"}, []),
        ({"torch"}, ["packages[pytorch]", "packages[vision]"]),
        (
            {"torch", "safetensors", "efficientnet-lite-pytorch", "timm"},
            ["packages[vision]"],
        ),
        ({"nvidia-ml-py"}, ["packages[nvidia]"]),
        (set(), []),
    ],
)
def test_an_extra_that_is_half_installed_is_said(
    monkeypatch: pytest.MonkeyPatch, installed: set[str], half: list[str]
) -> None:
    monkeypatch.setattr(machine_checks, "_is_installed", lambda own: own.name in installed)
    found = list(machine_checks.half_installed())
    assert [finding.check for finding in found] == half
    assert all(finding.advice.startswith("pip install 'mlscope[") for finding in found)


def test_what_a_framework_brings_with_it_begins_no_extra(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    facts = tmp_path / "torch-2.14.dist-info" / "METADATA"
    facts.parent.mkdir()
    facts.write_text("Metadata-Version: 2.1\nName: torch\nRequires-Dist: cuda_bindings>=13\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    installed = {"torch", "safetensors", "efficientnet-lite-pytorch", "cuda-bindings"}
    monkeypatch.setattr(machine_checks, "_is_installed", lambda own: own.name in installed)
    assert list(machine_checks.half_installed()) == []


@needs_root
@pytest.mark.parametrize(
    ("setting", "ending"),
    [
        ("auto", ", each on a CPU or a GPU of NVIDIA as a user of its own"),
        ("own", ", each as a user of its own"),
        ("agent", ", as root"),
    ],
)
def test_the_user_of_models_is_said_to_root(
    monkeypatch: pytest.MonkeyPatch, setting: str, ending: str
) -> None:
    monkeypatch.setenv("MLSCOPE_WORKER_USER", setting)
    assert agent_checks.sandbox().observation.endswith(ending)


def test_the_engine_that_an_agent_may_use_is_said_with_its_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert findings()["containers"].observation == "an agent here starts no containers"
    engine = engine_on_the_path(tmp_path / "engine", monkeypatch)
    monkeypatch.setenv("MLSCOPE_CONTAINERS", "docker")
    finding = agent_checks.containers()
    assert (finding.state, finding.observation.split()[-1]) == ("ok", "28.2.2")
    engine.has(unreachable=True)
    finding = agent_checks.containers()
    assert finding.state == "note"
    assert "Cannot connect to the Docker daemon" in finding.observation
    assert "unset MLSCOPE_CONTAINERS" in finding.advice


@pytest.mark.parametrize(
    ("statuses", "state", "observation", "advice"),
    [
        ([], "ok", "{url} answers", "MLSCOPE_HUB_URL=off stops"),
        ([503], "note", "{url} answers 503", "MLSCOPE_HUB_URL=off ends"),
    ],
)
def test_the_hub_is_named_with_whether_it_answers(
    site: Site,
    monkeypatch: pytest.MonkeyPatch,
    statuses: list[int],
    state: str,
    observation: str,
    advice: str,
) -> None:
    site.statuses = statuses
    monkeypatch.setattr(host_watch, "HOSTS", {})
    monkeypatch.setenv("MLSCOPE_HUB_URL", site.url)
    finding = findings()["hub"]
    assert (finding.state, finding.observation) == (state, observation.format(url=site.url))
    assert advice in finding.advice


def test_each_host_of_weights_is_said_with_what_needs_it(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Its server speaks no TLS.
    host = site.url.removeprefix("http://")
    monkeypatch.setattr(host_watch, "HOSTS", {host: "models of one host"})
    monkeypatch.setenv("MLSCOPE_HUB_URL", site.url)
    monkeypatch.setenv("MLSCOPE_FETCH_HOSTS", "127.0.0.1")
    hub, other = agent_checks.weight_hosts()
    assert (hub.check, hub.state, other.check, other.state) == ("hub", "ok", f"host {host}", "note")
    assert f"https://{host}/: " in other.observation
    assert "models of one host need --option weights=random" in other.advice


def answer_together(listening: socket.socket, connections: int) -> None:
    """Answer nobody before so many have asked."""
    asking = [listening.accept()[0] for _ in range(connections)]
    for connection in asking:
        with connection:
            connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


def test_hosts_of_weights_are_tried_at_the_same_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor() as pool:
        host = f"127.0.0.1:{listening.getsockname()[1]}"
        monkeypatch.setattr(host_watch, "HOSTS", {host: "models of one host"})
        monkeypatch.setenv("MLSCOPE_HUB_URL", f"http://{host}")
        monkeypatch.setenv("MLSCOPE_FETCH_HOSTS", "127.0.0.1")
        answered = pool.submit(answer_together, listening, 2)
        hub, _ = agent_checks.weight_hosts()
        answered.result()
    assert (hub.state, hub.observation) == ("ok", f"http://{host} answers")


def test_a_hub_that_is_off_is_said_with_how_to_have_one() -> None:
    finding = findings()["hub"]
    assert (finding.state, finding.observation.partition(":")[0]) == ("ok", "off")
    assert "unset MLSCOPE_HUB_URL" in finding.advice
