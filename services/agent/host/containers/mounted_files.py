"""What is mounted into a session's container so that it reads its files and no others (I/O)."""

import os
from collections.abc import Iterable, Sequence
from pathlib import Path

MOST_MOUNTS = 200
"""Files mounted one by one: a command line has room for some hundred mounts."""


def mounted_files(
    paths: Iterable[Path], writable: Path, links: Path
) -> Sequence[tuple[Path, Path]]:
    """Return what to mount, and where, so that `paths` can be read where they are.

    More files than `MOST_MOUNTS` are linked into the folder `links`, which is mounted in place of
    their own folders: these may hold files that are not the session's. `writable` is mounted as
    well, perhaps below one of them. Raises OSError where files can't be linked.
    """
    present = _topmost({path for path in paths if path.exists()})
    if len(present) <= MOST_MOUNTS:
        return [(path, path) for path in sorted(present)]
    folders = {path for path in present if path.is_dir()}
    roots = _common_roots(present - folders)
    links.mkdir(parents=True, exist_ok=True, mode=0o700)
    in_place = {root: links / str(number) for number, root in enumerate(sorted(roots))}
    for path in (*present, writable):
        for root in in_place.keys() & set(path.parents):
            link = in_place[root] / path.relative_to(root)
            if path in folders or path == writable:
                link.mkdir(parents=True, exist_ok=True)
            else:
                link.parent.mkdir(parents=True, exist_ok=True)
                # `link` would link a symbolic link itself.
                os.link(path.resolve(), link)
    mounts = [*((path, path) for path in folders), *((own, root) for root, own in in_place.items())]
    return sorted(mounts, key=lambda mount: mount[1])


def _common_roots(files: set[Path]) -> set[Path]:
    """Return the nearest folders, no more than can be mounted, that hold all `files`."""
    roots = _topmost({path.parent for path in files})
    while len(roots) > MOST_MOUNTS:
        depth = max(len(root.parts) for root in roots)
        roots = _topmost({root.parent if len(root.parts) == depth else root for root in roots})
    return roots


def _topmost(paths: set[Path]) -> set[Path]:
    """Return those of `paths` that are below none of the others."""
    return {path for path in paths if paths.isdisjoint(path.parents)}
