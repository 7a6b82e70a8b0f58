"""NumPy files: mapped, not loaded; pickles refused."""

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlscope.datasets.errors import BadField, BadOption, DatasetError, FileBroken
from mlscope.datasets.layout_detection import detect_reader
from mlscope.datasets.opening import open_dataset
from tests.mlscope.datasets.layouts import written


def tensors(*shape: int, seed: int = 0) -> Any:
    """Return float32 numbers."""
    return np.random.default_rng(seed).random(shape, np.float32)


def test_one_array_is_mapped(tmp_path: Path) -> None:
    numbers = tensors(6, 2, 3)
    np.save(tmp_path / "x.npy", numbers)
    dataset = open_dataset("npy", tmp_path / "x.npy")
    assert np.array_equal(np.stack(list(dataset)), numbers)
    assert isinstance(dataset[0].base, np.memmap)
    assert list(dataset.truths) == [None] * 6


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_samples_and_labels_of_an_archive(tmp_path: Path, save: Any) -> None:
    numbers = tensors(4, 5)
    save(tmp_path / "x.npz", samples=numbers, labels=np.array([0, 2, 1, 2]))
    dataset = open_dataset("npz", tmp_path / "x.npz", {"classes": 3}, scratch=tmp_path)
    assert np.array_equal(np.stack(list(dataset)), numbers)
    assert [truth.classes for truth in dataset.truths if truth] == [(0,), (2,), (1,), (2,)]
    assert sorted(each.name for each in tmp_path.iterdir()) == ["x.npz"]


def test_several_inputs_of_a_folder(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.arange(6, dtype=np.int64).reshape(3, 2))
    np.save(tmp_path / "mask.npy", np.asfortranarray(tensors(3, 2)))
    dataset = open_dataset("npy", tmp_path, {"inputs": {"input_ids": "ids", "mask": "mask"}})
    assert dataset[1]["input_ids"].tolist() == [2, 3]
    assert np.array_equal(dataset[2]["mask"], tensors(3, 2)[2])


def test_each_file_of_a_folder_is_a_sample(tmp_path: Path) -> None:
    numbers = tensors(3, 2, 4)
    numbers[2, 1, 1] = np.nan
    for index, sample in enumerate(numbers):
        np.save(tmp_path / f"clip{index}.npy", sample)
    reader, options = detect_reader(tmp_path)
    dataset = open_dataset(reader, tmp_path, options)
    assert (len(dataset), list(dataset.truths)) == (3, [None] * 3)
    assert np.array_equal(np.stack([dataset[0], dataset[1]]), numbers[:2])
    with pytest.raises(BadField, match=r"clip2\.npy: record 2: sample is 'NaN'"):
        dataset[2]


def test_a_folder_of_named_arrays_is_no_list_of_samples(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", tensors(5, 2))
    np.save(tmp_path / "y.npy", np.arange(5))
    dataset = open_dataset(*detect_reader(tmp_path)[:1], tmp_path)
    assert (len(dataset), dataset[0].shape) == (5, (2,))


def test_labels_that_are_no_whole_numbers_are_values(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=tensors(2, 1), y=np.array([0.5, np.nan]))
    dataset = open_dataset("npz", tmp_path / "x.npz")
    truth = dataset.truths[0]
    assert truth is not None
    assert truth.values is not None
    assert truth.values.tolist() == [0.5]
    with pytest.raises(DatasetError, match=r"x\.npz: record 1: its label is NaN"):
        dataset.truths[1]


def test_a_sample_with_nan_is_lost_alone(tmp_path: Path) -> None:
    numbers = tensors(3, 2)
    numbers[1, 0] = np.nan
    np.save(tmp_path / "x.npy", numbers)
    dataset = open_dataset("npy", tmp_path / "x.npy")
    assert np.array_equal(dataset[2], numbers[2])
    with pytest.raises(BadField, match=r"x\.npy: record 1: sample is 'NaN'"):
        dataset[1]
    assert np.isnan(open_dataset("npy", tmp_path / "x.npy", {"allow_nan": True})[1][0])


@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_pickled_objects_are_refused(tmp_path: Path, name: str) -> None:
    objects = np.array([{"a": 1}, None], object)
    if name == "x.npy":
        np.save(tmp_path / name, objects)
    else:
        np.savez(tmp_path / name, samples=objects)
    with pytest.raises(FileBroken, match=f"{name}.*not a .npy file of numbers"):
        open_dataset("npy", tmp_path / name)


@pytest.mark.parametrize("cut", [0.3, 0.7, 0.95])
@pytest.mark.parametrize("name", ["x.npy", "x.npz"])
def test_a_cut_file_is_refused(tmp_path: Path, name: str, cut: float) -> None:
    save = np.save if name == "x.npy" else np.savez
    save(tmp_path / name, tensors(50, 20))
    body = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(body[: int(len(body) * cut)])
    with pytest.raises(FileBroken, match=f"{name}: not a .np"):
        open_dataset("npy", tmp_path / name)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_an_archive_packed_by_a_rare_method_is_refused(tmp_path: Path, method: int) -> None:
    np.save(tmp_path / "a.npy", tensors(3, 2))
    with zipfile.ZipFile(tmp_path / "x.npz", "w", method) as archive:
        archive.write(tmp_path / "a.npy", "samples.npy")
    with pytest.raises(FileBroken, match=r"x\.npz.*a rare method; use np\.savez_compressed"):
        open_dataset("npz", tmp_path / "x.npz")


def test_what_does_not_belong_together_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", x=tensors(3, 2), y=np.arange(2))
    with pytest.raises(FileBroken, match="holds 3 samples, 2 labels"):
        open_dataset("npz", tmp_path / "x.npz")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"samples": "z"}, "one of a, b"),
        ({}, "one of a, b"),
        ({"labels": "a", "samples": "b"}, "labels of one dimension"),
    ],
)
def test_options_are_checked(tmp_path: Path, options: dict[str, Any], words: str) -> None:
    np.savez(tmp_path / "x.npz", a=tensors(3, 2), b=tensors(3, 2))
    with pytest.raises(BadOption, match=words):
        open_dataset("npz", tmp_path / "x.npz", options)


def test_what_is_no_array(tmp_path: Path) -> None:
    with pytest.raises(FileBroken, match=r"not a .npy file of numbers"):
        open_dataset("npy", written(tmp_path / "x.npy", "text"))
    np.savez(tmp_path / "x.npz", samples=np.array(["a", "b"]))
    with pytest.raises(FileBroken, match="samples is <U1, not numbers"):
        open_dataset("npz", tmp_path / "x.npz")
