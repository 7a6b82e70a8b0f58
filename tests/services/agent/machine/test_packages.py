"""Which packages of models work here, without importing any."""

import importlib.metadata
import subprocess
import sys
from pathlib import Path

import pytest

from services.agent.default_builders import BUILDERS
from services.agent.machine import packages
from services.agent.machine.packages import (
    onnxruntime_build,
    package_fact,
    package_facts,
    torchvision_fault,
)


def installed(folder: Path, name: str, *requirements: str, version: str = "1.0") -> None:
    """Install a package without code in a `folder`."""
    (folder / name).mkdir()
    (folder / name / "__init__.py").write_text("raise RuntimeError('imported')")
    facts = folder / f"{name}-{version}.dist-info"
    facts.mkdir()
    lines = "".join(f"Requires-Dist: {text}\n" for text in requirements)
    (facts / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}"
    )


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder on Python's path."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_what_is_missing_has_its_install_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packages, "find_spec", lambda _: None)
    assert package_fact("timm").reason == "not installed: pip install 'mlscope[vision]'"
    lite = package_fact("efficientnet_lite_pytorch")
    assert lite.reason == "not installed: pip install 'mlscope[pytorch]'"
    # An index may have a stranger's package under the name of a builder's own.
    assert package_fact("own_models").reason == "not installed"


def test_a_package_that_is_here_is_not_imported(folder: Path) -> None:
    installed(folder, "lone_models", "numpy>=1", "absent-thing; extra == 'more'")
    fact = package_fact("lone_models")
    assert (fact.version, fact.reason) == ("1.0", "")
    assert "lone_models" not in sys.modules


def test_a_half_installed_package_says_what_it_lacks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(folder, "half_models", "numpy==0.1", "h5py>=2", "absent-thing>=2")
    monkeypatch.setattr(packages, "_COUPLED", {"numpy", "absent-thing"})
    reason = package_fact("half_models").reason
    version = importlib.metadata.version("numpy")
    assert f"half-models needs numpy==0.1, and {version} is installed" in reason
    assert "half-models needs absent-thing, which is not installed" in reason


def test_facts_that_can_not_be_read_stop_nobody(folder: Path) -> None:
    installed(folder, "odd_models", "numpy ==", "numpy>=1", version="not a version")
    assert package_fact("odd_models").reason == ""


@pytest.mark.parametrize(("has_cuda", "is_fine"), [(False, False), (True, True)])
def test_a_torchvision_for_cuda_needs_such_a_pytorch(
    folder: Path, has_cuda: bool, is_fine: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A PyTorch that another test imported would be looked at instead of the one in the folder.
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    installed(folder, "torch", version="9.9+cpu")
    installed(folder, "torchvision", version="9.8")
    (folder / "torchvision" / "_C.so").write_bytes(b"\x7fELF\0libtorch_cuda.so\0")
    (folder / "torch" / "lib").mkdir()
    if has_cuda:
        (folder / "torch" / "lib" / "libtorch_cuda.so").touch()
    fault = torchvision_fault(folder / "torchvision", "9.8")
    assert (fault == "") is is_fine
    if not is_fine:
        assert "torchvision 9.8 is built for CUDA, and torch 9.9+cpu is not: pip install" in fault


def test_what_is_told_of_torchvision_is_what_importing_it_tells() -> None:
    fact = package_fact("torchvision")
    command = (sys.executable, "-c", "import torchvision")
    process = subprocess.run(command, capture_output=True, check=False, timeout=100)
    assert (fact.reason == "") == (process.returncode == 0), process.stderr[-500:]


def test_timm_is_as_good_as_its_torchvision() -> None:
    assert package_fact("timm").reason == package_fact("torchvision").reason


def test_builders_are_among_the_packages() -> None:
    names = [fact.name for fact in package_facts((*BUILDERS, "mine.models"))]
    assert {"torchvision", "timm", "keras", "PIL", "safetensors", "mine"} <= set(names)
    assert "services" not in names


@pytest.mark.parametrize(
    ("text", "build"),
    [
        (
            "package_name = 'onnxruntime-gpu'\n__version__ = '1.31.1'\ncuda_version = '13.0'\n",
            ("onnxruntime-gpu", "1.31.1"),
        ),
        ("cuda_version = '13.0'\n", None),
        ("", None),
    ],
)
def test_the_files_of_onnxruntime_say_whose_they_are(
    text: str, build: tuple[str, str] | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    installed(folder, "onnxruntime")
    if text:
        (folder / "onnxruntime" / "capi").mkdir()
        (folder / "onnxruntime" / "capi" / "build_and_package_info.py").write_text(text)
    assert onnxruntime_build() == build
    assert "onnxruntime" not in sys.modules
