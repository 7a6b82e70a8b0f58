"""The extras that documents and advice name are there."""

import re
import tomllib

from tests.docs.pages import REPOSITORY

_EXTRAS = re.compile(r"(?:mlscope|'\.)\[([a-z,]+)\]")


def test_each_extra_that_is_named_exists() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    places = [REPOSITORY / "README.md", *(REPOSITORY / "docs").rglob("*.md")]
    named = {
        name
        for path in places
        for names in _EXTRAS.findall(path.read_text("utf-8"))
        for name in names.split(",")
    }
    extras = set(project["optional-dependencies"])
    assert named <= extras
    wanted = "onnxruntime pytorch vision tensorflow jax openvino litert nvidia everything"
    assert set(wanted.split()) <= named


def test_everything_has_each_framework_of_a_registry() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
    (text,) = project["optional-dependencies"]["everything"]
    (names,) = _EXTRAS.findall(text)
    wanted = {"all", "jax", "litert", "openvino", "pytorch", "tensorflow", "vision"}
    assert wanted <= set(names.split(","))
    assert "onnxruntime" in str(project["optional-dependencies"]["all"])
