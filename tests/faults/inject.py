"""The faults: each is done to a cluster, lasts, is undone, and proves that it hit (I/O).

A fault is a context: it is there within the block. It adds to `Proof` what shows that it hit.
"""

import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from cli.cluster.servers.nats_server import complaint
from cli.cluster.servers.postgres import ADMIN
from cli.cluster.servers.postgres_home import find_home
from cli.cluster.state import read_state
from tests.disks import fill, remount
from tests.faults.logs import leader_of, newest_time_ns
from tests.faults.trials import Blow
from tests.faults.victims import family_of, pid_of, state_of, ticks_of
from tests.faults.worlds import World, inside

T = TypeVar("T")
Proof = list[str]
"""What shows that a fault hit, in words."""

WITHIN_S = 60.0


def awaited(found: Callable[[], T], what: str, within_s: float = WITHIN_S) -> T:
    """Return what `found` gives once it is true; fails with `what` when that takes too long."""
    deadline = time.monotonic() + within_s
    while not (value := found()):
        assert time.monotonic() < deadline, f"waited {within_s:g} s in vain: {what}"
        time.sleep(0.02)
    return value


def process_of(world: World, victim: str) -> int:
    """Return the victim's pid once it runs: another fault may have just hit it."""
    return awaited(lambda: pid_of(world.folder, victim), f"a process of {victim}", 10.0) or 0


@contextmanager
def killed(world: World, victim: str, proof: Proof) -> Iterator[None]:
    """Kill one process; it is started anew, but for a worker, which the next attempt starts."""
    pid, before = process_of(world, victim), world.restarts().get(victim, 0)
    os.kill(pid, signal.SIGKILL)
    awaited(lambda: state_of(pid) in ("", "Z"), f"the end of {victim}")
    yield
    if victim == "worker":
        proof.append(f"worker {pid} ended")
        return
    count = awaited(lambda: world.restarts()[victim] - before, f"the restart of {victim}")
    proof.append(f"{victim} {pid} ended, restarts +{count}")


@contextmanager
def standing_still(world: World, victim: str, proof: Proof) -> Iterator[None]:
    """Stop a process, and of PostgreSQL all, as if the machine had no time for it."""
    pid = process_of(world, victim)
    stopped = family_of(pid) if victim == "postgres" else [pid]
    began_s = time.monotonic()
    for each in stopped:
        with suppress(ProcessLookupError):  # that of a connection may end meanwhile
            os.kill(each, signal.SIGSTOP)
    try:
        awaited(lambda: state_of(pid) in ("T", ""), f"the stop of {victim}")
        ticks = ticks_of(pid)
        yield
        stall_s = time.monotonic() - began_s
        if state_of(pid) == "T":
            assert ticks_of(pid) == ticks, f"{victim} went on"
            proof.append(f"{victim} {pid} stood still for {stall_s:.1f} s")
        else:
            proof.append(f"{victim} {pid} stood still and was ended within {stall_s:.1f} s")
    finally:
        for each in stopped:
            if state_of(each) == "T":
                os.kill(each, signal.SIGCONT)


@contextmanager
def clock_set(world: World, evaluation: str, step_ns: int, proof: Proof) -> Iterator[None]:
    """Set the wall clock of every Python program of the cluster until the evaluation has ended."""
    world.set_clock(step_ns)
    try:
        yield
        off_ns = newest_time_ns(world, evaluation) - time.time_ns()
        assert abs(off_ns - step_ns) < 120e9, (off_ns, step_ns)
        proof.append(f"the newest decision is {off_ns / 1e9:+.0f} s off")
    finally:
        world.set_clock(0)


@contextmanager
def disk_full(world: World, victim: str, proof: Proof) -> Iterator[None]:
    """Take all the room on a server's disk; what becomes free meanwhile stays so."""
    filler = world.folder / victim / "filler"
    fill(filler)
    try:
        with (filler.parent / "probe").open("wb", buffering=0) as probe:
            try:
                probe.write(b"\0" * 4096)
            except OSError as error:
                proof.append(f"the disk of {victim}: {error.strerror}")
        assert proof, "the disk had room"
        yield
    finally:
        filler.unlink()
        (filler.parent / "probe").unlink(missing_ok=True)
    if victim == "nats":
        # One that refused to store is started anew, and not in the next trial.
        log = world.folder / "logs" / "nats.log"
        awaited(lambda: not complaint(log.read_bytes()), "a broker that stores")


@contextmanager
def read_only(world: World, victim: str, proof: Proof) -> Iterator[None]:
    """Let a server die and find its disk read-only; it can't start until the disk is mended.

    The kernel makes no disk read-only while a file is open for writing.
    """
    disk, before = world.folder / victim, world.restarts()[victim]

    def is_read_only() -> bool:
        pid = pid_of(world.folder, victim)
        if pid is not None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not remount(disk, is_writable=False)

    awaited(is_read_only, f"a read-only disk of {victim}")
    try:
        yield
        try:
            (disk / "probe").touch()
            raise AssertionError("the disk can be written")
        except OSError as error:
            proof.append(f"the disk of {victim}: {error.strerror}")
    finally:
        awaited(lambda: not remount(disk, is_writable=True), "a writable disk")
    count = world.restarts()[victim] - before
    assert count >= 1, "it never tried to start"
    proof.append(f"{victim}: restarts +{count}")


@contextmanager
def agent_cut(world: World, proof: Proof) -> Iterator[None]:
    """Take the wire of the agent's host away."""
    (host,) = world.hosts
    broker = world.places[0].address, int(read_state(world.folder).nats_url.rpartition(":")[2])
    assert reaches(host.namespace, broker)
    world.cut(host, is_cut=True)
    try:
        assert not reaches(host.namespace, broker)
        proof.append(f"{host.namespace} did not reach {broker[0]}")
        yield
    finally:
        world.cut(host, is_cut=False)
    awaited(lambda: reaches(host.namespace, broker), "a mended wire")


@contextmanager
def broker_cut(world: World, victim: str, proof: Proof, *, from_all: bool) -> Iterator[None]:
    """Cut one broker of three from the others, and `from_all` from every other host as well."""
    number = int(victim[-1])
    host = world.hosts[number]
    urls = [url.rpartition("//")[2] for url in read_state(world.folder).nats_url.split(",")]
    peers = [(url.partition(":")[0], int(url.partition(":")[2])) for url in urls]
    own = peers.pop(number)

    def blackhole(verb: str) -> None:
        for address, _ in peers:
            words = ("route", verb, "blackhole", f"{address}/32")
            subprocess.run(["ip", "-n", host.namespace, *words], check=True)

    assert reaches(host.namespace, peers[0])
    if from_all:
        world.cut(host, is_cut=True)
    else:
        blackhole("add")
    try:
        assert not any(reaches(host.namespace, peer) for peer in peers)
        assert reaches("", own) != from_all
        proof.append(f"{victim} reached no other broker")
        yield
    finally:
        if from_all:
            world.cut(host, is_cut=False)
        else:
            blackhole("del")
    awaited(lambda: reaches(host.namespace, peers[0]), "a mended wire")


def reaches(namespace: str, place: tuple[str, int]) -> bool:
    """Tell whether a connection can be made from a network namespace, '' being this one."""
    with inside(namespace):
        try:
            socket.create_connection(place, timeout=0.5).close()
        except OSError:
            return False
        return True


@contextmanager
def leader_killed(world: World, stream: str, proof: Proof) -> Iterator[None]:
    """Kill the broker that leads a stream."""
    leader = leader_of(world, stream)
    with killed(world, leader, proof):
        yield
    proof.append(f"{leader} led {stream}; now {leader_of(world, stream)} does")


@contextmanager
def restored(world: World, proof: Proof) -> Iterator[None]:
    """Back PostgreSQL up; at the end of the block put that backup in the place of its data.

    What was stored within the block is no longer in the database.
    """
    home = find_home(world.folder)
    backup = home.folder / "backup"
    password = (world.folder / "keys" / "postgres.pw").read_text("ascii").strip()
    port = read_state(world.folder).ports["postgres"]
    argv = [str(home.programs / "pg_basebackup"), "-h", "127.0.0.1", "-p", str(port)]
    argv += ["-U", ADMIN, "-D", str(backup), "-c", "fast", "-X", "stream", "--no-sync"]
    before = _batches(world)
    subprocess.run(argv, env={**os.environ, "PGPASSWORD": password}, check=True)
    yield
    supervisor = read_state(world.folder).supervisor.pid
    with suppress(AssertionError):  # on a slow machine all may be stored before the backup
        awaited(lambda: _batches(world) - before, "the storing of a further batch", 5.0)
    stored = _batches(world)
    os.kill(supervisor, signal.SIGSTOP)
    try:
        _exchange(process_of(world, "postgres"), home.data, backup, home.user)
    finally:
        os.kill(supervisor, signal.SIGCONT)
    awaited(lambda: world.processes()["postgres"].state != "ready", "the end of PostgreSQL")
    awaited(lambda: world.processes()["postgres"].state == "ready", "PostgreSQL")
    # Tables may be there before: of rows that were read from the database that is gone.
    awaited(lambda: _batches(world) >= stored, "the batches that the backup lacks")
    proof.append(f"a backup of {len(before)} batches replaced a database of {len(stored)}")


def _batches(world: World) -> set[tuple[int, int, int]]:
    return set(world.rows("SELECT run_key, kind, sequence FROM batch"))


def _exchange(pid: int, data: Path, backup: Path, user: tuple[int, int] | None) -> None:
    """End PostgreSQL the hard way, and put a backup where its data were."""
    family = family_of(pid)
    os.kill(pid, signal.SIGKILL)
    awaited(lambda: all(state_of(each) in ("", "Z") for each in family), "PostgreSQL's end")
    gone = data.with_name("gone")
    data.rename(gone)
    backup.rename(data)
    if user is not None:
        subprocess.run(["chown", "-R", f"{user[0]}:{user[1]}", str(data)], check=True)
    subprocess.run(["rm", "-rf", str(gone)], check=True)


def fault(world: World, evaluation: str, blow: Blow, proof: Proof) -> AbstractContextManager[None]:
    """Return the fault that a blow is."""
    faults: dict[str, Callable[[], AbstractContextManager[None]]] = {
        "kill": lambda: killed(world, blow.victim, proof),
        "stop": lambda: standing_still(world, blow.victim, proof),
        "clock": lambda: clock_set(world, evaluation, blow.step_ns, proof),
        "full": lambda: disk_full(world, blow.victim, proof),
        "read-only": lambda: read_only(world, blow.victim, proof),
        "kill leader": lambda: leader_killed(world, blow.victim, proof),
        "restore": lambda: restored(world, proof),
        "cut from peers": lambda: broker_cut(world, blow.victim, proof, from_all=False),
        "cut": lambda: (
            agent_cut(world, proof)
            if blow.victim == "agent"
            else broker_cut(world, blow.victim, proof, from_all=True)
        ),
    }
    return faults[blow.act]()


@contextmanager
def faults(world: World, evaluation: str, blows: tuple[Blow, ...], proof: Proof) -> Iterator[None]:
    """Do all the blows at once."""
    with ExitStack() as stack:
        for blow in blows:
            stack.enter_context(fault(world, evaluation, blow, proof))
        yield
