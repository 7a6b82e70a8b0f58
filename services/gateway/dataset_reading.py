"""The process that looks into a sent dataset: `python -m services.gateway.dataset_reading`.

It unpacks and parses what anybody may have sent, so it is a process of its own: its memory is
limited, its caller limits its time, and the gateway answers others meanwhile. Its arguments are the
file, its ending, a folder to unpack it into, and the most bytes that it may unpack to. It writes a
JSON object: the dataset's `modality`, `archive`, `path`, `reader`, `options`, `samples` and
`classes`, or `fault` and `fix` where it is not one.
"""

import json
import resource
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlscope.assets.archives import unpack
from mlscope.assets.errors import ArchiveBomb, ArchiveUnsafe, FetchError
from mlscope.assets.options import UnpackLimits
from mlscope.datasets.errors import DatasetError, LayoutUnknown, PackageNeeded
from mlscope.datasets.layout_detection import detect_reader
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.readers.folder import PICTURE_SUFFIXES, paths_below

MOST_FILES = 200_000
"""Files in an archive."""
_MEMORY_BYTES = 2 << 30
_MOST_CLASSES = 1000
_MODALITIES = {**dict.fromkeys(PICTURE_SUFFIXES, "image"), ".wav": "audio", ".txt": "text"}
"""What the files of a folder are where they have one ending."""
_MODALITY_OF_READER = {"npy": "tensor", "npz": "tensor", "squad": "text"}
_PACK_AGAIN = "pack the dataset's folder again: zip -r data.zip FOLDER"
_DESCRIBE = "or send it by POST /api/files and describe it in a manifest with a source and reader"
_FEWER = (
    "send fewer or smaller files, raise MLSCOPE_MAX_UPLOAD_BYTES, or give the dataset by an address"
)


def looked_into(file: Path, ending: str, scratch: Path, limits: UnpackLimits) -> dict[str, Any]:
    """Return what a sent file is as a dataset.

    `ending` is .npy, .npz or that of an archive, which is unpacked into the empty folder `scratch`
    within the `limits`. Raises FetchError, DatasetError.
    """
    is_archive = ending not in (".npy", ".npz")
    folder, root = scratch / "unpacked", file
    folder.mkdir()
    if is_archive:
        unpack(file, folder, address="body", limits=limits)
        root = dataset_root(folder)
    reader, options = _reader_of(root) if is_archive else (ending[1:], {})
    samples, classes = 0, tuple[str, ...]()
    try:
        dataset = open_dataset(reader, root, options, scratch=scratch)
        samples, classes = len(dataset), dataset.classes[:_MOST_CLASSES]
    except PackageNeeded:
        pass  # The agents may have it.
    endings = _endings_below(root) if reader == "files" else set[str]()
    modality = _MODALITY_OF_READER.get(reader, _MODALITIES.get(next(iter(endings), ".jpg"), "raw"))
    path = root.relative_to(folder).as_posix() if is_archive and root != folder else ""
    return {
        "modality": modality,
        "archive": is_archive,
        "path": path,
        "reader": reader,
        "options": dict(options),
        "samples": samples,
        "classes": classes,
    }


def dataset_root(folder: Path) -> Path:
    """Return the folder or file below `folder` that is not alone in its folder.

    Who packs a folder has it in the archive. Names that begin with a dot, and those that macOS
    adds, do not count.
    """
    while folder.is_dir():
        names = (path.name for path in folder.iterdir() if not path.name.startswith("."))
        inside = [folder / name for name in names if name != "__MACOSX"]
        if len(inside) != 1 or inside[0].is_symlink():
            break
        folder = inside[0]
    return folder


def _reader_of(root: Path) -> tuple[str, Mapping[str, Any]]:
    """Return a reader and its options, `files` for sounds or texts alone. Raises LayoutUnknown."""
    try:
        return detect_reader(root)
    except LayoutUnknown:
        if len(_endings_below(root) & {".wav", ".txt"}) == len(_endings_below(root)) == 1:
            return "files", {}
        raise


def _endings_below(root: Path) -> set[str]:
    """Return the endings of the files below a folder, or of one file."""
    paths = paths_below(root, ()) if root.is_dir() else (root,)
    return {path.suffix.lower() for path in paths}


def fault_of(error: FetchError | DatasetError | MemoryError) -> dict[str, str]:
    """Return what is wrong with a dataset, and what to do about it."""
    match error:
        case ArchiveUnsafe():
            return {"fault": f"member {error.member!r} {error.reason}", "fix": _PACK_AGAIN}
        case ArchiveBomb():
            return {"fault": f"more than {error.limit:g} {error.measure}", "fix": _FEWER}
        case FetchError():
            return {"fault": str(error).removeprefix("archive body: "), "fix": _PACK_AGAIN}
        case LayoutUnknown():
            allowed = "send a folder of pictures, of .npy files or of a known layout"
            return {"fault": error.reason, "fix": f"{allowed}, {_DESCRIBE}"}
        case MemoryError():
            return {"fault": "its records need more than 2 GB of memory", "fix": _DESCRIBE[3:]}
    return {"fault": str(error), "fix": f"correct the file, {_DESCRIBE}"}


def main() -> None:
    """Look into the file that the arguments name."""
    file, ending, scratch, most_bytes = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY_BYTES, _MEMORY_BYTES))
    limits = UnpackLimits(max_bytes=int(most_bytes), max_files=MOST_FILES)
    answer: dict[str, Any]
    try:
        answer = looked_into(Path(file), ending, Path(scratch), limits)
    except (FetchError, DatasetError, MemoryError) as error:
        answer = fault_of(error)
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
