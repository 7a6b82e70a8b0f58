"""Names that resemble known ones, and that no sender makes it expensive to look for them."""

import difflib
from typing import Any

import pytest

from mlscope.manifests import spelling
from mlscope.manifests.errors import ManifestFaulty
from mlscope.manifests.reading import read_manifest_text
from mlscope.manifests.spelling import LONGEST_SPELT, MOST_KNOWN, close_names

MODEL = """
name: x
version: 1.0.0
framework: {name: onnxruntime, version: ">=1"}
model: {graph_path: m.onnx, checksum: "sha256:%s"}
""" % ("0" * 64)
INPUTS = "inputs: [{type: raw, layer_name: a, element_type: float32, shape: [-1, 3]}]"
OUTPUTS = "outputs: [{type: raw, element_type: float32, layer_name: boxes, steps: [%s]}, %s]"


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect with how many names each name is compared."""
    counts: list[int] = []

    def counting(name: str, known: list[str], **options: Any) -> list[str]:
        assert max(map(len, [name, *known]), default=0) <= LONGEST_SPELT
        counts.append(len(known))
        return difflib.get_close_matches(name, known, **options)

    monkeypatch.setattr(spelling, "get_close_matches", counting)
    return counts


def faults_in(text: str) -> list[str]:
    """Return the fields of the faults in a manifest."""
    with pytest.raises(ManifestFaulty) as faulty:
        read_manifest_text(text, "x.yml", "model")
    return [fault.field for fault in faulty.value.faults]


def test_the_most_similar_name_comes_first() -> None:
    assert close_names("pytroch", ["torch", "pytorch", "jax"], most=2) == ["pytorch", "torch"]
    assert close_names("pytroch", ["pytorch"], cutoff=0.99) == []


def test_long_names_and_long_lists_are_not_compared(compared: list[int]) -> None:
    long = "x" * (LONGEST_SPELT + 1)
    assert close_names(long, [long]) == []
    assert close_names("abc", [long, "abd", *map(str, range(2 * MOST_KNOWN))]) == ["abd"]
    assert compared == [MOST_KNOWN]


def test_a_step_that_misspells_an_output_is_named(compared: list[int]) -> None:
    other = "{type: raw, element_type: float32, layer_name: scores}"
    outputs = OUTPUTS % ("{boxes: {scores: scroes}}", other)
    fields = faults_in(f"{MODEL}{INPUTS}\n{outputs}\n")
    assert "outputs.0.steps.0.boxes.scores" in fields


def test_steps_without_end_are_compared_a_few_times(compared: list[int]) -> None:
    steps = ", ".join(f"{{boxes: {{scores: other{number}}}}}" for number in range(500))
    port = "{{type: raw, element_type: float32, layer_name: port{number}}}"
    ports = ", ".join(port.format(number=number) for number in range(500))
    read_manifest_text(f"{MODEL}{INPUTS}\n{OUTPUTS % (steps, ports)}\n", "x.yml", "model")
    assert compared.count(100) == 20


def test_unknown_fields_without_end_are_named_a_few_times(compared: list[int]) -> None:
    unknown = "".join(f"descriptio{number}: 1\n" for number in range(1000))
    assert len([field for field in faults_in(MODEL + unknown) if "descriptio" in field]) == 100
    assert len(compared) <= 110


@pytest.mark.parametrize("field", ["frameworks", "inputs", "outputs"])
def test_a_model_has_so_many_entries(compared: list[int], field: str) -> None:
    entry = "{name: onxruntime}" if field == "frameworks" else "{type: imagge}"
    entries = ", ".join([entry] * 1001)
    assert field in faults_in(f"{MODEL}{field}: [{entries}]\n")
    assert len(compared) < 10
