"""One nkey per connection name, and passwords: made once, kept in files of mode 0600."""

import os
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import nkeys


@dataclass(frozen=True, slots=True)
class Key:
    """An nkey user: what the server knows, and the file with the seed that proves it."""

    name: str
    public: str
    seed_file: Path

    @property
    def seed(self) -> str:
        """The secret itself, read from its file."""
        return self.seed_file.read_text("ascii").strip()


@dataclass(frozen=True, slots=True)
class Secret:
    """A password and the file it is kept in."""

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


def _public(seed: bytes) -> str:
    pair = nkeys.from_seed(bytearray(seed))
    public: bytes = pair.public_key
    return public.decode("ascii")


def ensure_key(folder: Path, name: str) -> Key:
    """Return the key called `name` in `folder`, made now if there is none."""
    path = folder / f"{name}.nk"
    if not path.exists():
        seed: bytes = nkeys.encode_seed(os.urandom(32), nkeys.PREFIX_BYTE_USER)
        write_secret(path, seed.decode("ascii"))
    return Key(name, _public(path.read_bytes().strip()), path)


def ensure_keys(folder: Path, names: Iterable[str]) -> Mapping[str, Key]:
    """Return the keys of every name in `folder`; those that exist are kept."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return {name: ensure_key(folder, name) for name in names}


def ensure_password(path: Path) -> Secret:
    """Return the password in `path`, made now (256 bits) if there is none."""
    if not path.exists():
        write_secret(path, secrets.token_hex(32))
    return Secret(path, path.read_text("ascii").strip())
