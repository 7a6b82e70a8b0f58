"""A plan on a borrowed machine with a newer Python: installed as README says, in its own venv."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from schemas.plan import OfflinePlan, Plan
from services.agent.host.offline import read_bundle
from tests.services.agent.builders import MANIFESTS, a_run, a_subject, an_order

ROOT = MANIFESTS.parent
RUNS = (a_run("m", level="model"), a_run("l", level="framework"))
PACKAGES = ("cli", "manifests", "mlscope", "schemas", "services")


def bare_environ() -> dict[str, str]:
    """Return the environment without what leads to this Python or to a cluster."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("MLSCOPE_", "PYTHON"))}


def ran(*command: str | Path, timeout_s: float = 600) -> "subprocess.CompletedProcess[str]":
    """Run a command away from this repository."""
    return subprocess.run(
        [str(each) for each in command],
        cwd="/",
        env=bare_environ(),
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
    )


def interpreter(version: str) -> Path:
    """Return a Python of this version that can make venvs; skips where there is none."""
    name = f"python{version}"
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    found = [Path(there)] if (there := shutil.which(name)) else []
    for each in (*found, *sorted(pyenv.glob(f"versions/{version}.*/bin/{name}"))):
        if ran(each, "-c", "import ensurepip, venv").returncode == 0:
            return each
    pytest.skip(f"PYTHON {version} IS NOT TRIED: there is none here that makes venvs")


@pytest.fixture(params=["3.12", "3.13"])
def borrowed(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Lend the programs of a venv with mlscope in it; skips where packages can't be had."""
    made = ran(interpreter(request.param), "-m", "venv", tmp_path / "venv")
    assert made.returncode == 0, made.stderr
    programs = tmp_path / "venv" / "bin"
    pip = (programs / "python", "-m", "pip", "install", "--quiet")
    needed = f"{ROOT}[images,onnxruntime]"
    installed = ran(*pip, "--constraint", ROOT / "constraints.txt", needed)
    if "No matching distribution" in installed.stderr or "ConnectionError" in installed.stderr:
        said = installed.stderr.strip().splitlines()[-1]
        pytest.skip(f"PYTHON {request.param} IS NOT TRIED: {said}")
    assert installed.returncode == 0, installed.stderr
    return programs


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_plan_runs_on_it_as_it_does_here(borrowed: Path, tmp_path: Path) -> None:
    order = an_order(a_subject("tiny_cnn", "noise32"), RUNS)
    plan = Plan(subject=order.subject, sessions=(order.session,))
    wish, bundle = tmp_path / "plan.json", tmp_path / "run.bundle"
    wish.write_text(OfflinePlan(evaluation="e1", plan=plan).model_dump_json())
    done = ran(borrowed / "mlscope", "agent", "--plan", wish, "--out", bundle)
    assert done.returncode == 0, done.stderr
    assert f"{len(RUNS)} runs, 0 failed" in done.stdout
    assert len(list(read_bundle(bundle))) > 10
    site = ran(borrowed / "python", "-c", "import schemas; print(schemas.__path__[0])")
    folder = Path(site.stdout.strip()).parent
    assert folder.is_relative_to(borrowed.parent), "its own copy runs, not this repository's"
    compiled = ran(
        *(borrowed / "python", "-W", "error", "-m", "compileall", "-q", "-f"),
        *(folder / each for each in PACKAGES),
    )
    assert compiled.returncode == 0, compiled.stdout
