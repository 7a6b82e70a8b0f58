"""A machine without some packages: each command says which, and what installs them."""

import importlib.metadata
from collections.abc import Sequence
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from cli import exits
from cli.missing_packages import MODULES, missing_package_text
from tests.cli.bare import DEPENDENCIES, run_bare


@pytest.mark.parametrize(
    ("distributions", "words", "text"),
    [
        ((), ("doctor",), "msgpack is not installed here: pip install mlscope"),
        ((), ("ls", "models"), "is not installed here: pip install mlscope"),
        (DEPENDENCIES, ("ls", "models"), "nats is not installed here: pip install 'mlscope[serv"),
        (DEPENDENCIES, ("run", "tiny-cnn"), "pip install 'mlscope[services]'"),
    ],
)
def test_a_missing_package_is_one_sentence(
    tmp_path: Path, distributions: Sequence[str], words: Sequence[str], text: str
) -> None:
    bare = ("packaging", *distributions)
    ended = run_bare(tmp_path / "packages", bare, *words)
    assert (ended.returncode, ended.stdout) == (exits.FAILED, "")
    assert text in ended.stderr
    assert len(ended.stderr.splitlines()) == 1


def test_the_doctor_needs_no_more_than_an_agent(tmp_path: Path) -> None:
    ended = run_bare(tmp_path / "packages", (*DEPENDENCIES, "onnxruntime"), "doctor")
    assert ended.stderr == ""
    assert "without jinja2, nats-py, nkeys" in ended.stdout
    assert "framework onnxruntime" in ended.stdout


def test_an_extra_has_the_packages_of_its_modules() -> None:
    owners = importlib.metadata.packages_distributions()
    needs = list(map(Requirement, importlib.metadata.requires("mlscope") or []))
    for extra, modules in MODULES.items():
        names = {n.name for n in needs if not n.marker or n.marker.evaluate({"extra": extra})}
        packages = {canonicalize_name(owners[module][0]) for module in modules if module in owners}
        assert packages <= names


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ModuleNotFoundError(name="tf"), "the Python package tf is not installed here: pip instal"),
        (ModuleNotFoundError(name="services.none"), ""),
        (ImportError("cannot import name", name="numpy"), ""),
        (ModuleNotFoundError("?"), ""),
    ],
)
def test_only_foreign_packages_are_missing(error: ImportError, text: str) -> None:
    assert missing_package_text(error).startswith(text)
    assert bool(missing_package_text(error)) == bool(text)
