"""Wheels for tests, and a folder that pip is told to find them in."""

import base64
import hashlib
import zipfile
from pathlib import Path


def make_wheel(folder: Path, name: str, version: str, files: dict[str, bytes]) -> Path:
    """Write a wheel of pure data."""
    about = f"{name}-{version}.dist-info"
    whole = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{about}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{path},sha256={_digest(body)},{len(body)}\n" for path, body in whole.items())
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for inner, body in {**whole, f"{about}/RECORD": record.encode()}.items():
            archive.writestr(inner, body)
    return path


def _digest(body: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip("=")
