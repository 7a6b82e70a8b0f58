"""An agent in its framework's container: what the engine is told."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from cli import exits
from cli.container import framework_manifest, image_of, launch_of, start
from cli.failures import Misused
from cli.main import main
from tests.places import LISTINGS

ENGINE = """#!/bin/sh
{python} - "$@" <<'END'
import json, os, sys
told = {name: value for name, value in os.environ.items() if name.startswith("MLSCOPE_")}
with open(os.environ["TOLD"], "w") as file:
    json.dump({"arguments": sys.argv[1:], "environ": told}, file)
END
exit 7
"""
"""An engine that writes down what it was asked, and fails."""

LISTING = LISTINGS / "framework_manifest_listing2.yml"
ROOT = Path(__file__).resolve().parents[2]
ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """Lend a framework's manifest with containers for this machine."""
    path = tmp_path / "own.yml"
    images = {"cpu": "own/agent:1-cpu", "gpu": "own/agent:1-gpu"}
    text = {"name": "own", "version": "1.0.0", "containers": {ARCHITECTURE: images}}
    path.write_text(json.dumps(text))
    return path


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    """Lend a folder with an engine called docker in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "docker"
    program.write_text(ENGINE.replace("{python}", sys.executable))
    program.chmod(0o755)
    return folder


@pytest.fixture
def told(tmp_path: Path, engine: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Put the engine first on the path, and return where it writes."""
    monkeypatch.setenv("PATH", f"{engine}:/usr/bin:/bin")
    monkeypatch.setenv("TOLD", str(tmp_path / "told.json"))
    for name in [each for each in os.environ if each.startswith("MLSCOPE_")]:
        monkeypatch.delenv(name)
    return tmp_path / "told.json"


def test_the_engine_starts_the_image_with_the_agents_settings(
    manifest: Path, told: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed = tmp_path / "agent.nk"
    seed.write_text("SUSECRET")
    monkeypatch.setenv("MLSCOPE_NATS_URL", "nats://user:secret@10.0.0.1:4222")
    monkeypatch.setenv("MLSCOPE_NATS_SEED_FILE", str(seed))
    monkeypatch.setenv("MLSCOPE_AGENT_ID", "gpu-box")
    monkeypatch.setenv("MLSCOPE_AGENT_LABELS", "rack=7")
    monkeypatch.setenv("MLSCOPE_DATA", str(tmp_path))
    # It becomes the engine, so in a process of its own.
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "agent", "--framework-manifest", str(manifest)],
        cwd=ROOT,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 7, done.stderr
    asked = json.loads(told.read_text())
    arguments, environ = asked["arguments"], asked["environ"]
    assert arguments[0] == "run"
    assert arguments[-3:] == ["own/agent:1-cpu", "serve", "agent"]
    inside = "/run/mlscope/mlscope_nats_seed_file"
    assert f"type=bind,source={seed},target={inside},readonly" in arguments
    passed = [arguments[n + 1] for n, each in enumerate(arguments) if each == "--env"]
    passed.remove("HOME=/tmp/mlscope")
    assert {name: environ[name] for name in passed} == {
        "MLSCOPE_NATS_URL": "nats://user:secret@10.0.0.1:4222",
        "MLSCOPE_NATS_SEED_FILE": "/run/mlscope/mlscope_nats_seed_file",
        "MLSCOPE_AGENT_ID": "gpu-box",
        "MLSCOPE_AGENT_LABELS": "rack=7",
        "MLSCOPE_AGENT_IMAGE": "own/agent:1-cpu",
        "MLSCOPE_DATA": "/tmp/mlscope/data",
    }
    assert "secret" not in " ".join(arguments)
    assert "--gpus" not in arguments


def test_a_gpu_is_asked_for_with_its_image(manifest: Path, engine: Path) -> None:
    launch = launch_of(framework_manifest(manifest), "gpu", {"PATH": str(engine)})
    place = launch.command.index("--gpus")
    assert launch.command[place + 1] == "all"
    assert "own/agent:1-gpu" in launch.command
    assert launch.command[0] == str(engine / "docker")


@pytest.fixture(params=["docker", "podman"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Lend a folder with nothing but one of the engines."""
    program: Path = tmp_path / "one" / request.param
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return program


def told_to(engine: Path, manifest: Path, device: str, **settings: str) -> tuple[str, ...]:
    """Return what an engine is told."""
    environ = {"PATH": str(engine.parent), "MLSCOPE_AGENT_ID": "a", **settings}
    return launch_of(framework_manifest(manifest), device, environ).command


HOW = ("--rm", "--init", "--network", "host", "--shm-size", "256m", "--name", "mlscope-agent-a")
NAMES = ("MLSCOPE_AGENT_ID", "MLSCOPE_AGENT_IMAGE", "MLSCOPE_DATA")
ENV = ("--env", "HOME=/tmp/mlscope", *(part for name in NAMES for part in ("--env", name)))


@pytest.mark.parametrize("uid", [0, 1234])
def test_an_engine_s_whole_command_line(
    manifest: Path, either: Path, uid: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.getuid", lambda: uid)
    gpu = {"docker": ("--gpus", "all"), "podman": ("--device", "nvidia.com/gpu=all")}
    users = ("--userns", "keep-id") if either.name == "podman" and uid else ()
    for device, devices in (("cpu", ()), ("gpu", gpu[either.name])):
        assert told_to(either, manifest, device) == (
            *(str(either), "run", *HOW, "--user", f"{uid}:{os.getgid()}"),
            *("--security-opt", "label=disable", *users, *devices, *ENV),
            f"own/agent:1-{device}",
            "serve",
            "agent",
        )


@pytest.mark.parametrize("script", [True, False], ids=["script", "link"])
def test_podman_that_is_called_docker_is_told_as_podman(
    manifest: Path, tmp_path: Path, *, script: bool
) -> None:
    podman, docker = tmp_path / "podman", tmp_path / "bin" / "docker"
    docker.parent.mkdir()
    podman.write_text("")
    podman.chmod(0o755)
    if script:
        docker.write_text('#!/usr/bin/sh\necho Emulates. >&2\nexec /usr/bin/podman "$@"\n')
        docker.chmod(0o755)
    else:
        docker.symlink_to(podman)
    told = told_to(docker, manifest, "gpu")
    assert "nvidia.com/gpu=all" in told
    assert "--gpus" not in told


def test_folders_of_datasets_are_where_requests_look_for_them(
    manifest: Path, either: Path, tmp_path: Path
) -> None:
    first, second = tmp_path / "one, two", tmp_path / "three"
    folders = f"{second}, {second}/../four"
    settings = {"PATH": str(either.parent), "MLSCOPE_DATASET_FOLDERS": folders}
    launch = launch_of(framework_manifest(manifest), "cpu", settings)
    four = tmp_path / "four"
    assert launch.environ["MLSCOPE_DATASET_FOLDERS"] == f"{second},{four}"
    for folder in (second, four):
        assert f"type=bind,source={folder},target={folder},readonly" in launch.command
    told = told_to(either, manifest, "cpu", MLSCOPE_MANIFESTS=str(first))
    mount = told[told.index("--mount") + 1]
    assert mount == f'type=bind,"source={first}",target=/run/mlscope/mlscope_manifests,readonly'


def test_secrets_of_other_services_stay_outside(manifest: Path, either: Path) -> None:
    given = {"MLSCOPE_DATABASE_URL": "postgresql://u:p@h/d", "MLSCOPE_LOG_LEVEL": "debug"}
    told = told_to(either, manifest, "cpu", **given)
    assert "MLSCOPE_LOG_LEVEL" in told
    assert "MLSCOPE_DATABASE_URL" not in told


def test_without_an_engine_it_says_what_to_do(
    manifest: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    assert main(["agent", "--framework-manifest", str(manifest)]) == exits.USAGE
    said = capsys.readouterr().err
    assert "none of docker, podman is on the PATH" in said
    assert "own/agent:1-cpu" in said


def test_an_image_for_another_machine_is_refused_with_those_there_are(engine: Path) -> None:
    listing = framework_manifest(LISTING)
    only = listing.model_copy(update={"containers": {"ppc64le": {"cpu": "far"}}})
    with pytest.raises(Misused, match=r"no container for \w+ cpu; it has ppc64le cpu"):
        image_of(only, "cpu")


@pytest.mark.skipif(ARCHITECTURE != "amd64", reason="the listing's containers are amd64's")
def test_the_papers_listing_gives_its_image() -> None:
    listing = framework_manifest(LISTING)
    assert image_of(listing, "gpu") == "carml/tensorflow:1-15-0_amd64-gpu"


def test_another_kind_of_manifest_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "d.yml"
    path.write_text("kind: dataset\nname: d\nsynthetic: {shape: [3]}\n")
    with pytest.raises(Misused, match="found a dataset"):
        start(path, "cpu")


def test_a_plan_needs_a_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["agent", "--plan", str(tmp_path / "plan.json")]) == exits.USAGE
    assert "--out BUNDLE" in capsys.readouterr().err
