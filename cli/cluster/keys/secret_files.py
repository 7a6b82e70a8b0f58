"""One nkey per connection name, and passwords: created once, stored in files of mode 0600."""

import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Key:
    """An nkey user: the public key that the server knows, and the file with the secret seed."""

    name: str
    public: str
    seed_file: Path

    @property
    def seed(self) -> str:
        """The secret itself, read from its file."""
        return self.seed_file.read_text("ascii").strip()


@dataclass(frozen=True, slots=True)
class Secret:
    """A password and its file."""

    path: Path
    value: str = field(repr=False)


def write_secret(path: Path, text: str) -> None:
    """Write `text` to `path` in one step, readable by its owner alone from the first moment."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def ensure_key(folder: Path, name: str) -> Key:
    """Return the key called `name` in `folder`, created if there is none."""
    import nkeys  # a machine without a broker has no such package

    path = folder / f"{name}.nk"
    if not path.exists():
        seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
        write_secret(path, seed.decode("ascii"))
    public: bytes = nkeys.from_seed(bytearray(path.read_bytes().strip())).public_key
    return Key(name, public.decode("ascii"), path)


def ensure_keys(folder: Path, names: Iterable[str]) -> Mapping[str, Key]:
    """Return a key for every name; creates those that `folder` does not hold."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return {name: ensure_key(folder, name) for name in names}


def ensure_password(path: Path) -> Secret:
    """Return the password in `path`, created (256 bits) if there is none."""
    if not path.exists():
        write_secret(path, secrets.token_hex(32))
    return Secret(path, path.read_text("ascii").strip())
