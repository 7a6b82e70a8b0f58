"""PostgreSQL's data folder: made whole or not at all, checked before a server opens it."""

import os
import shutil
import subprocess
from pathlib import Path

from cli.cluster import keys
from cli.cluster.errors import DatabaseInitFailed, WrongDataVersion
from cli.cluster.postgres_home import PostgresHome

_NO_PROCESS = "2147483647"
"""A process id beyond what any kernel hands out."""


def server_environ() -> dict[str, str]:
    """Return the environment of PostgreSQL's programs: nothing of ours but the path."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"}


def make_data(home: PostgresHome, admin: str, password: str, *, durable: bool) -> None:
    """Make PGDATA with superuser `admin`, as the user who will run it.

    It appears under its name only when complete, so an initdb that was killed leaves
    nothing that looks like data.
    """
    partial, pwfile = home.folder / "data.partial", home.folder / ".pwfile"
    if partial.exists():
        shutil.rmtree(partial)
    partial.mkdir(mode=0o700)
    keys.write_secret(pwfile, password)
    if home.user is not None:
        os.chown(partial, *home.user)
        os.chown(pwfile, *home.user)
    try:
        _initdb(home, partial, ["-U", admin, f"--pwfile={pwfile}", *([] if durable else ["-N"])])
    finally:
        pwfile.unlink(missing_ok=True)
    partial.rename(home.data)


def _initdb(home: PostgresHome, data: Path, arguments: list[str]) -> None:
    uid, gid = home.user or (None, None)
    argv = [str(home.programs / "initdb"), "-D", str(data), "-E", "UTF8", "--no-instructions"]
    argv += ["--auth=scram-sha-256", "--locale-provider=builtin", "--locale=C.UTF-8"]
    done = subprocess.run(
        [*argv, *arguments],
        cwd=home.folder,
        capture_output=True,
        text=True,
        check=False,
        env=server_environ(),
        user=uid,
        group=gid,
        extra_groups=None if uid is None else [],
    )
    if done.returncode != 0:
        raise DatabaseInitFailed(data, (done.stdout + done.stderr)[-2000:])


def _major(programs: Path) -> str:
    """Return the major version of the programs in `programs`."""
    shown = subprocess.run(
        [str(programs / "postgres"), "--version"], capture_output=True, text=True, check=True
    ).stdout
    return shown.split()[-1].split(".")[0]


def check_version(home: PostgresHome) -> None:
    """Raise `WrongDataVersion` unless the programs' major version made this data."""
    found = (home.data / "PG_VERSION").read_text("ascii").strip()
    wanted = _major(home.programs)
    if found != wanted:
        raise WrongDataVersion(home.data, found, wanted)


def forget_reused_pid(home: PostgresHome) -> None:
    """Make a lock file stale whose process id belongs to another program by now.

    Only the pid is replaced: with the file gone PostgreSQL could not see orphaned
    backends still using its memory.
    """
    lock = home.data / "postmaster.pid"
    if not lock.exists() or not Path("/proc/self").exists():
        return
    first, _, rest = lock.read_text("ascii", "replace").partition("\n")
    try:
        running = Path(f"/proc/{first.strip()}/cmdline").read_bytes()
    except OSError:
        return
    if str(home.data).encode() not in running:
        lock.write_text(f"{_NO_PROCESS}\n{rest}", "ascii")
