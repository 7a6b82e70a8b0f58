"""Manifests as people write them: what is wrong is said with its line; the listings parse."""

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mlscope.manifests import reading
from mlscope.manifests.errors import Fault, ManifestFaulty
from mlscope.manifests.reading import read_manifest_text
from schemas.manifest import FrameworkManifest, ModelManifest, Step

_LISTINGS = Path(__file__).parent / "listings"
_MODELS = Path(__file__).parents[3] / "manifests" / "models"

GOOD = """\
name: net
version: 1.0.0
framework: {name: onnxruntime}
inputs:
  - type: image
    steps:
      - decode:
        color_mode: RGB
outputs:
  - type: raw
model: {graph_path: net.onnx}
"""


def faults_of(text: str, kind: str = "model") -> tuple[Fault, ...]:
    with pytest.raises(ManifestFaulty) as caught:
        read_manifest_text(text, "net.yml", kind)
    return caught.value.faults


def only_fault(text: str, kind: str = "model") -> Fault:
    (fault,) = faults_of(text, kind)
    return fault


def test_listing_one_parses_as_it_stands() -> None:
    text = (_LISTINGS / "model_manifest_listing1.yml").read_text()
    model = read_manifest_text(text, "listing", "model")
    assert isinstance(model, ModelManifest)
    assert model.inputs[0].steps[1] == Step(
        operator="resize",
        parameters={"dimensions": [3, 224, 224], "method": "bilinear", "keep_aspect_ratio": True},
    )
    assert (model.preprocess, model.framework.version) == ("[[code]]", ">=1.12.0 <2.0")
    assert model.attributes == {"training_dataset": [{"name": "ImageNet"}, {"version": "1.0.0"}]}


def test_listing_two_parses_as_it_stands() -> None:
    text = (_LISTINGS / "framework_manifest_listing2.yml").read_text()
    framework = read_manifest_text(text, "listing", "framework")
    assert isinstance(framework, FrameworkManifest)
    assert framework.containers["ppc64le"]["gpu"] == "carml/tensorflow:1-15-0_ppc64le-gpu"


@pytest.mark.parametrize("path", sorted(_MODELS.glob("*.yml")), ids=lambda path: path.stem)
def test_shipped_models_have_no_fault(path: Path) -> None:
    assert read_manifest_text(path.read_text(), path.name, "model").version


def test_every_fault_is_told_with_its_line() -> None:
    text = GOOD.replace("framework:", "framwork:").replace("- type: raw", "- typ: raw")
    assert [(fault.line, fault.field) for fault in faults_of(text)] == [
        (1, "framework"),
        (3, "framwork"),
        (10, "outputs.0.typ"),
        (10, "outputs.0.type"),
    ]


def test_every_fault_of_a_list_is_told_also_of_lists_in_it() -> None:
    """A list of a message ends at its first fault."""
    ports = "  - {type: image, shape: [-1, a, 3, b]}\n  - {name: 7}\n  - {type: raw, range: 1}\n"
    faults = faults_of(GOOD.replace("inputs:\n", f"inputs:\n{ports}"))
    assert [(fault.line, fault.field) for fault in faults] == [
        (5, "inputs.0.shape.1"),
        (5, "inputs.0.shape.3"),
        (6, "inputs.1.name"),
        (6, "inputs.1.type"),
        (7, "inputs.2.range"),
    ]


def test_a_fault_says_file_line_field_found_and_allowed() -> None:
    fault = only_fault(
        GOOD.replace("- type: image", "- {type: image, shape: [-1, a]}\n  - type: x")
    )
    assert fault.text("net.yml") == (
        "net.yml:5: inputs.0.shape.1: found 'a', allowed: an integer, not a string or a boolean"
    )


def test_an_unknown_field_is_met_with_the_nearest_one() -> None:
    fault = only_fault(GOOD + "licence: MIT\n")
    assert (fault.line, fault.field, fault.allowed) == (12, "licence", "license?")


def test_an_unknown_step_is_told_at_its_line() -> None:
    fault = only_fault(GOOD.replace("decode", "decypher").replace("color_mode: RGB", "a: 1"))
    assert (fault.line, fault.found) == (7, "decypher")
    assert "resize" in fault.allowed


def test_a_field_given_twice_is_a_fault() -> None:
    fault = only_fault(GOOD + "version: 2.0.0\n")
    assert (fault.line, fault.field) == (12, "version")
    assert "line 2" in fault.found


def test_an_unknown_kind_lists_the_known() -> None:
    fault = only_fault("kind: modle\n" + GOOD)
    assert (fault.field, fault.found) == ("kind", "'modle'")
    assert set(reading.kinds()) <= set(fault.allowed.split(", "))


def test_no_kind_at_all_is_told() -> None:
    assert only_fault(GOOD, kind="").field == "kind"


def test_what_is_no_yaml_is_told_at_its_line() -> None:
    fault = only_fault("name: x\nversion: [1, 2\nframework: x\n")
    assert (fault.line, fault.allowed) == (3, "YAML")


@pytest.mark.parametrize("text", ["", "- a\n", "just words"])
def test_what_is_no_map_is_told(text: str) -> None:
    assert only_fault(text).allowed == "a map of fields"


def test_aliases_of_aliases_are_bounded() -> None:
    rows = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    rows += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert "aliases" in only_fault("\n".join(rows)).allowed


def test_an_alias_of_itself_is_bounded() -> None:
    assert "aliases" in only_fault("a: &a [*a]\n").allowed


def test_aliases_of_a_long_word_are_bounded() -> None:
    text = f"a: &a {'x' * 500_000}\nb: [{', '.join(['*a'] * 10_000)}]\n"
    assert "characters with aliases" in only_fault(text).allowed


def test_aliases_in_a_key_are_bounded() -> None:
    key = "[x]"
    for n in range(10):
        key = f"[&a{n} {key}, {', '.join([f'*a{n}'] * 10)}]"
    fault = only_fault(f"{GOOD}? {key}\n: 1\n")
    assert (fault.allowed, fault.line) == ("a word", 12)


@pytest.mark.parametrize("key", ["<<", "*m "])
def test_merges_of_a_map_are_bounded(key: str) -> None:
    text = "a: &a {x: 1}\nb:\n  &m <<: *a\n" + f"  {key}: *a\n" * 100
    fault = only_fault(text)
    assert (fault.found, fault.line) == ("more than 100 merges (<<) in a map", 3)


@pytest.mark.parametrize("text", ["[" * 500_000, "- " * 500_000, "{a: " * 250_000, "? " * 500_000])
def test_lists_in_lists_are_bounded(text: str) -> None:
    fault = only_fault(text)
    assert ("in each other" in fault.found, fault.line) == (True, 1)


def test_directives_are_bounded() -> None:
    text = "".join(f"%TAG !a{n}! b\n" for n in range(50_000))
    assert "directives" in only_fault(f"{text}--- {GOOD}").found


@pytest.mark.parametrize("number", ["1" + ":1" * 400_000, "0x" + "f" * 9_000, "1" * 9_000])
def test_numbers_are_bounded(number: str) -> None:
    assert "characters" in only_fault(f"name: {number}\n").found


@pytest.mark.parametrize("value", ["!!bool x", "!!int ''", "!!timestamp x", "1:1.0" + ":1" * 200])
def test_a_value_that_its_tag_excludes_is_told(value: str) -> None:
    assert faults_of(f"name: {value}\n")


def test_steps_and_inline_code_exclude_each_other() -> None:
    code = "preprocess: |\n  def fun(env, data):\n    return data\n"
    assert "either steps or inline code" in only_fault(GOOD + code).allowed
    bare = GOOD.replace("    steps:\n      - decode:\n        color_mode: RGB\n", "")
    model = read_manifest_text(bare + code, "net.yml", "model")
    assert isinstance(model, ModelManifest)
    assert "def fun" in model.preprocess


@given(st.text(max_size=200))
def test_no_text_is_too_strange(text: str) -> None:
    with pytest.raises(ManifestFaulty):
        read_manifest_text(text, "net.yml", "model")


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
        max_leaves=8,
    )
)
def test_no_value_in_a_field_is_too_strange(value: object) -> None:
    good = yaml.safe_load(GOOD)
    text = yaml.safe_dump({**good, "inputs": value})
    lines: list[int] = []
    try:
        read_manifest_text(text, "net.yml", "model")
    except ManifestFaulty as error:
        lines = [fault.line for fault in error.faults]
    assert all(lines)


def test_a_constraint_nobody_can_read_is_told_at_its_line() -> None:
    fault = only_fault(GOOD.replace("{name: onnxruntime}", "{name: x, version: newest}"))
    assert (fault.line, fault.field, fault.found) == (3, "framework.version", "'newest'")
    more = GOOD + "frameworks:\n  - {name: y, version: oldest}\n"
    assert only_fault(more).field == "frameworks.0.version"
    of_builder = "frameworks:\n  - {name: y, model: {builder: a.b, builder_version: newest}}\n"
    assert only_fault(GOOD + of_builder).field == "frameworks.0.model.builder_version"
    without = only_fault(GOOD + "frameworks:\n  - {name: y, model: {builder_version: '>=1'}}\n")
    assert without.field == "frameworks.0.model.builder_version"
    assert "frameworks.0.model.builder too" in without.allowed
