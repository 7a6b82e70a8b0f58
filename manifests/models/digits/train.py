"""Make model.onnx and the dataset's digits.npz from scikit-learn's 1,797 handwritten digits.

A layer of 256 random features from a seed, a ReLU, and on top a ridge regression to one-hot
targets, solved in closed form: no step size, no epochs, so the same numbers come out up to the
rounding of one linear system. The split is drawn before anything is fitted; the ridge was set to 1
beforehand, so that nothing was chosen by looking at the held-out digits.

Usage: python train.py [MODEL_FOLDER DATASET_FOLDER] (needs numpy, scikit-learn and onnx).
"""

import sys
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from typing import Any
from zipfile import ZipFile, ZipInfo

import numpy as np
from numpy.typing import NDArray

SEED = 1797
FEATURES, CLASSES, SIDE = 256, 10, 8
HELD_OUT = 450
BRIGHTEST = 16.0
RIDGE = 1.0

Numbers = NDArray[np.float64]


def split(pixels: Numbers, labels: NDArray[np.int64]) -> dict[str, NDArray[Any]]:
    """Return the digits held out, 45 of each class, and those to train on, in random order."""
    random = np.random.Generator(np.random.PCG64(SEED))
    order = random.permutation(len(labels))
    places = [order[labels[order] == digit][: HELD_OUT // CLASSES] for digit in range(CLASSES)]
    is_held = np.isin(order, np.concatenate(places))
    held_out, train = order[is_held], order[~is_held]
    return {
        "held_out": pixels[held_out].astype(np.float32),
        "held_out_labels": labels[held_out].astype(np.uint8),
        "train": pixels[train].astype(np.float32),
        "train_labels": labels[train].astype(np.uint8),
    }


def fitted(digits: dict[str, NDArray[Any]]) -> tuple[Numbers, Numbers, Numbers]:
    """Return hidden weights [64, 256], its biases and output weights [257, 10] (last row: bias)."""
    random = np.random.Generator(np.random.PCG64(SEED + 1))
    hidden = random.normal(0.0, np.sqrt(2 / SIDE**2), (SIDE**2, FEATURES)) / BRIGHTEST
    biases = random.normal(0.0, 0.1, FEATURES)
    features = np.maximum(digits["train"].astype(np.float64) @ hidden + biases, 0.0)
    features = np.concatenate([features, np.ones((len(features), 1))], axis=1)
    targets = np.eye(CLASSES)[digits["train_labels"]]
    system = features.T @ features + RIDGE * np.eye(FEATURES + 1)
    return hidden, biases, np.linalg.solve(system, features.T @ targets)


def scores(weights: tuple[Numbers, Numbers, Numbers], pixels: NDArray[Any]) -> Numbers:
    """Return the scores [n, 10] of digits [n, 64], as the model computes them, in float64."""
    hidden, biases, output = weights
    features = np.maximum(pixels.astype(np.float64) @ hidden + biases, 0.0)
    class_scores: Numbers = features @ output[:-1] + output[-1]
    return class_scores


def model_of(weights: tuple[Numbers, Numbers, Numbers]) -> bytes:
    """Return the ONNX model: `pixels` float32 [N, 64], 0 to 16, to `scores` [N, 10]."""
    import onnx
    from onnx import helper, numpy_helper

    hidden, biases, output = (array.astype(np.float32) for array in weights)
    named = {"w1": hidden, "b1": biases, "w2": output[:-1], "b2": output[-1]}
    nodes = [
        helper.make_node("Gemm", ["pixels", "w1", "b1"], ["h"], "hidden"),
        helper.make_node("Relu", ["h"], ["r"], "relu"),
        helper.make_node("Gemm", ["r", "w2", "b2"], ["scores"], "output"),
    ]
    kind = onnx.TensorProto.FLOAT
    graph = helper.make_graph(
        nodes,
        "digits",
        [helper.make_tensor_value_info("pixels", kind, ["batch", SIDE**2])],
        [helper.make_tensor_value_info("scores", kind, ["batch", CLASSES])],
        [numpy_helper.from_array(value, name) for name, value in named.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    onnx.checker.check_model(model, full_check=True)
    body: bytes = model.SerializeToString(deterministic=True)
    return body


def archive_of(arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return a .npz without the time of its making, so that it is the same each time."""
    body = BytesIO()
    with ZipFile(body, "w") as archive:
        for name, array in arrays.items():
            member = BytesIO()
            np.lib.format.write_array(member, array, allow_pickle=False)
            archive.writestr(ZipInfo(f"{name}.npy"), member.getvalue(), 8, 9)
    return body.getvalue()


def main(model_folder: Path, dataset_folder: Path) -> None:
    """Write both files; print their checksums and how many held-out digits are right."""
    from sklearn.datasets import load_digits  # type: ignore[import-untyped,unused-ignore]

    pixels, labels = load_digits(return_X_y=True)
    digits = split(pixels, labels)
    weights = fitted(digits)
    files = {
        model_folder / "model.onnx": model_of(weights),
        dataset_folder / "digits.npz": archive_of(digits),
    }
    for path, body in files.items():
        path.write_bytes(body)
        print(f"{path.name} sha256:{sha256(body).hexdigest()} ({len(body)} bytes)")
    right = scores(weights, digits["held_out"]).argmax(axis=1) == digits["held_out_labels"]
    print(f"held out: {int(right.sum())} of {len(right)} right")


if __name__ == "__main__":
    model_folder = Path(__file__).resolve().parent
    folders = [Path(argument) for argument in sys.argv[1:3]]
    main(*(folders or [model_folder, model_folder.parents[1] / "datasets" / "digits"]))
