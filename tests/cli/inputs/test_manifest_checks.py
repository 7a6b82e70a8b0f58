"""Every fault of a manifest in one pass, with those of the files beside it."""

from pathlib import Path

import pytest

from cli import exits
from cli.main import main

ZEROS = f"sha256:{'0' * 64}"
FAULTY = f"""\
kind: model
name: my model
version: 1.0.0
framework: onnxruntim
frameworks:
  - name: ""
    model: {{graph_path: other.onnx, checksum: "{ZEROS}"}}
inputs:
  - {{type: tensr, layer_name: x}}
outputs:
  - {{type: raw, layer_nam: y}}
dataset: fotos
precision: [1]
model:
  graph_path: nosuch.onnx
  checksum: "{ZEROS}"
"""
SOUND = (
    FAULTY.replace("my model", "my-model")
    .replace("onnxruntim", "onnxruntime")
    .replace('name: ""', "name: openvino")
    .replace("tensr", "tensor")
    .replace("layer_nam:", "layer_name:")
    .replace("precision: [1]\n", "")
    .replace("nosuch.onnx", "other.onnx")
    .replace(f'"{ZEROS}"', '""')
)
DATASET = "kind: dataset\nname: fotos\nsynthetic: {samples: 4}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "other.onnx").write_text("graph")
    (tmp_path / "faulty.yml").write_text(FAULTY)
    (tmp_path / "sound.yml").write_text(SOUND)
    (tmp_path / "fotos.yml").write_text(DATASET)
    return tmp_path


def test_every_fault_is_told_in_one_pass(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifest", "check", str(folder / "faulty.yml")]) == exits.USAGE
    lines = capsys.readouterr().err.splitlines()
    faults = [" ".join(line.split(": ")[:2]).split(":", 1)[1] for line in lines]
    assert faults == [
        "2 name",
        "4 framework.name",
        "6 frameworks.0.name",
        "7 frameworks.0.model.checksum",
        "9 inputs.0.type",
        "11 outputs.0.layer_nam",
        "12 dataset",
        "13 precision",
        "15 model.graph_path",
    ]
    assert "onnxruntime?" in lines[1]
    assert "photos?" in lines[6]


def test_a_dataset_may_be_checked_along(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sound, fotos = str(folder / "sound.yml"), str(folder / "fotos.yml")
    assert main(["manifest", "check", sound]) == exits.USAGE
    assert "sound.yml:12: dataset: found 'fotos'" in capsys.readouterr().err
    assert main(["manifest", "check", sound, fotos]) == exits.OK


def test_a_dataset_s_files_are_looked_for(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photos = folder / "photos.yml"
    sample = f'{{path: other.onnx, sha256: "{"0" * 64}"}}'
    photos.write_text(f"kind: dataset\nname: own\nsamples: [{sample}, {sample}]\n")
    photos.write_text(photos.read_text().replace("other", "gone", 1))
    assert main(["manifest", "check", str(photos)]) == exits.USAGE
    first, second = capsys.readouterr().err.splitlines()
    assert "samples.0.path: found no file gone.onnx" in first
    assert "samples.1.sha256" in second
