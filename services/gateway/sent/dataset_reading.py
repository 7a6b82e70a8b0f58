"""The process that looks into a sent dataset: `python -m services.gateway.sent.dataset_reading`.

It unpacks and parses what anybody may have sent, so it is a process of its own: its memory is
limited, its caller limits its time, and the gateway answers others meanwhile. Its arguments are the
file, its ending, a folder to unpack it into, and the most bytes that it may unpack to. It writes a
JSON object: the dataset's `modality`, `archive`, `path`, `reader`, `options`, `samples`, the first
`classes`, their number (`class_count`) and a `note`; `fault` and `fix` where it is not one;
`lacks_room` where the disk is full.
"""

import json
import os
import resource
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from mlscope.assets.archives import unpack
from mlscope.assets.errors import ArchiveBomb, ArchiveUnsafe, CacheUnusable, FetchError
from mlscope.assets.options import UnpackLimits
from mlscope.datasets.errors import DatasetError, LayoutUnknown, PackageNeeded, ScratchFull
from mlscope.datasets.layout_detection import detect_reader
from mlscope.datasets.opening import open_dataset
from mlscope.datasets.reader_input import BoundedFolder
from mlscope.datasets.readers.folder import PICTURE_SUFFIXES, paths_below
from services.gateway.errors import lacks_room

MOST_FILES = 200_000
"""Files in an archive."""
MEMORY_BYTES = 1 << 30
"""What the process may take."""
MOST_CLASSES = 1000
"""Classes that are named; all of them are counted."""
_MODALITIES = {**dict.fromkeys(PICTURE_SUFFIXES, "image"), ".wav": "audio", ".txt": "text"}
"""What the files of a folder are where they have one ending."""
_MODALITY_OF_READER = {"npy": "tensor", "npz": "tensor", "squad": "text"}
_NO_CLASSES = "subfolders are classes only if they hold pictures and no picture lies outside them"
_PACK_AGAIN = "pack the dataset's folder again: zip -r data.zip FOLDER"
_DESCRIBE = "or send it by POST /api/files and describe it in a manifest with a source and reader"
_FEWER = (
    "send fewer or smaller files, raise MLSCOPE_MAX_UPLOAD_BYTES, or give the dataset by an address"
)


def answer_about(file: Path, ending: str, scratch: Path, limits: UnpackLimits) -> dict[str, Any]:
    """Return what the process writes about a `file`, which may be a fault.

    Its `ending`, the folder `scratch` and the `limits` are those of `looked_into`.
    """
    try:
        return looked_into(file, ending, scratch, limits)
    except Exception as error:  # noqa: BLE001 (whatever anybody sends, they get an answer)
        return {"lacks_room": True} if lacks_room(error) else fault_of(error)


def looked_into(file: Path, ending: str, scratch: Path, limits: UnpackLimits) -> dict[str, Any]:
    """Return what a sent file is as a dataset.

    `ending` is .npy, .npz or that of an archive. What is unpacked, an archive and the files in it,
    goes into the empty folder `scratch` within the `limits`. Raises FetchError, DatasetError.
    """
    is_archive = ending not in (".npy", ".npz")
    folder, root, unpacked_bytes = scratch / "unpacked", file, 0
    folder.mkdir()
    if is_archive:
        unpacked_bytes = unpack(file, folder, address="body", limits=limits)
        root = dataset_root(folder)
    reader, options = _reader_of(root) if is_archive else (ending[1:], {})
    samples, classes = 0, tuple[str, ...]()
    try:
        bounded = BoundedFolder(scratch, limits.max_bytes, unpacked_bytes)
        dataset = open_dataset(reader, root, options, scratch=bounded)
        samples, classes = len(dataset), tuple(dataset.classes)
    except PackageNeeded:
        pass  # The agents may have it.
    require_utf8(name for _, folders, files in os.walk(folder) for name in (*folders, *files))
    require_utf8(classes)
    return {
        "modality": modality_of(root, reader),
        "archive": is_archive,
        "path": root.relative_to(folder).as_posix() if is_archive and root != folder else "",
        "reader": reader,
        "options": dict(options),
        "samples": samples,
        "classes": classes[:MOST_CLASSES],
        "class_count": len(classes),
        "note": "" if classes else note_of(root, reader),
    }


def require_utf8(names: Iterable[str]) -> None:
    """Raise ArchiveUnsafe where one of the `names` is not UTF-8: no message could have it."""
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise ArchiveUnsafe("body", name, "has a name that is not UTF-8: rename it") from error


def modality_of(root: Path, reader: str) -> str:
    """Return what the samples of the folder or file `root`, as its `reader` reads it, are."""
    if reader == "files":
        return _MODALITIES.get(next(iter(_endings_below(root))), "raw")
    return _MODALITY_OF_READER.get(reader, "image")


def note_of(root: Path, reader: str) -> str:
    """Return what may surprise about a dataset without classes: `root` has subfolders; else ''."""
    is_folder = reader in ("files", "image_folder") and root.is_dir()
    has_subfolders = is_folder and any(path.parent != root for path in paths_below(root, ()))
    return _NO_CLASSES if has_subfolders else ""


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


def fault_of(error: Exception) -> dict[str, str]:
    """Return what is wrong with a dataset, and what to do about it."""
    match error:
        case ArchiveUnsafe():
            return {"fault": f"member {error.member!r} {error.reason}", "fix": _PACK_AGAIN}
        case ArchiveBomb():
            return {
                "fault": f"more than {error.limit:g} {error.measure}",
                "fix": error.fix or _FEWER,
            }
        case ScratchFull():
            return {"fault": f"more than {error.most_bytes:g} bytes", "fix": _FEWER}
        case CacheUnusable():
            return {"fault": f"it cannot be unpacked: {error.reason}", "fix": _PACK_AGAIN}
        case FetchError():
            return {"fault": str(error).removeprefix("archive body: "), "fix": _PACK_AGAIN}
        case LayoutUnknown():
            allowed = "send a folder of pictures, of .npy files or of a known layout"
            return {"fault": error.reason, "fix": f"{allowed}, {_DESCRIBE}"}
        case DatasetError():
            return {"fault": str(error), "fix": f"correct the file, {_DESCRIBE}"}
        case MemoryError():
            gigabytes = MEMORY_BYTES >> 30
            fault = f"its records need more than {gigabytes} GB of memory"
            return {"fault": fault, "fix": _DESCRIBE[3:]}
    fault = f"it cannot be read ({type(error).__name__})"
    return {"fault": fault, "fix": f"correct the file, {_DESCRIBE}"}


def main() -> None:
    """Look into the file that the arguments name."""
    file, ending, scratch, most_bytes = sys.argv[1:]
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_BYTES, MEMORY_BYTES))
    limits = UnpackLimits(max_bytes=int(most_bytes), max_files=MOST_FILES)
    answer = answer_about(Path(file), ending, Path(scratch), limits)
    # A refusal may quote a name that is not UTF-8.
    sys.stdout.buffer.write(json.dumps(answer, ensure_ascii=False).encode(errors="replace"))


if __name__ == "__main__":
    main()
