"""The loop of `mlscope up`: start servers, provision, start services, keep them running."""

import logging
import select
import signal
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from cli.cluster.errors import (
    ClusterError,
    NotAnAddress,
    NotReady,
    ProgramMissing,
    ProvisionFailed,
    StopRequested,
)
from cli.cluster.plan import ClusterPlan, Listening, Programs
from cli.cluster.ports import LOOPBACK, chosen_ports, held, is_own_address
from cli.cluster.processes import Child, identify, last_lines
from cli.cluster.servers.nats_server import StorageWatch
from cli.cluster.state import ClusterState, folder_lock, make_own, write_state
from cli.cluster.supervised import Supervised, bound_log
from mlscope.redaction import redact

_log = logging.getLogger(__name__)

SERVERS_WITHIN_S = 90.0
PROVISION_TRIES = 4
SERVICES_WITHIN_S = 90.0
"""A busy machine of two cores took 30 s to start six services: a request then found no model."""
_EARLY_ENDS = 4
_LOG_CHECK_S = 5.0
_RELOADS_S = (0.0, 0.3, 3.0)
"""When the broker reads a changed configuration. nats-server (2.15) gives an account that a reload
adds its imports with the next reload, and two signals at once are one."""
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)

ShowState = Callable[[ClusterState], None]
"""Called with every new state to display it."""


class Waker:
    """Waits for a time, a child's end or a stop signal, without polling.

    `stop_requests` counts stop signals; `is_news` is set by SIGUSR1: the members have changed.
    Handles this process's signals while it is entered; for the main thread only.
    """

    def __init__(self) -> None:
        """Open the pair of sockets that signals write to."""
        self.stop_requests = 0
        self.is_news = False
        self._reader, self._writer = socket.socketpair()
        self._previous_handlers: list[tuple[signal.Signals, Any]] = []
        self._previous_descriptor = -1

    def wait(self, timeout_s: float) -> None:
        """Return after `timeout_s` or as soon as a signal arrives."""
        readable, _, _ = select.select([self._reader], [], [], max(0.0, timeout_s))
        if readable:
            self._reader.recv(4096)

    def __enter__(self) -> Self:
        """Install the signal handlers."""

        def note(number: int, _frame: FrameType | None) -> None:
            if number == signal.SIGUSR1:
                self.is_news = True
            elif number != signal.SIGCHLD:
                self.stop_requests += 1

        for end in (self._reader, self._writer):
            end.setblocking(False)
        self._previous_descriptor = signal.set_wakeup_fd(
            self._writer.fileno(), warn_on_full_buffer=False
        )
        self._previous_handlers = [
            (number, signal.signal(number, note))
            for number in (*_STOP_SIGNALS, signal.SIGCHLD, signal.SIGUSR1)
        ]
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Restore the previous signal handlers."""
        for number, handler in self._previous_handlers:
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._previous_descriptor)
        self._reader.close()
        self._writer.close()


class Supervisor:
    """Runs a planned cluster until a signal asks it to stop; `run` returns when all has ended."""

    def __init__(
        self, plan: ClusterPlan, waker: Waker, show_state: ShowState, own_pid: int
    ) -> None:
        """Prepare a supervisor.

        `plan`: the programs to run; `waker`: waits for signals; `show_state`: called with every
        new state; `own_pid`: the id of the supervisor's process.
        """
        self._plan = plan
        self._waker = waker
        self._show_state = show_state
        self._own = identify(own_pid)
        self._servers = [Supervised(program) for program in plan.servers()]
        self._services: list[Supervised] = []
        self._phase = "servers"
        self._reason = ""
        self._logs_due_s = 0.0
        self._reloads_due_s: list[float] = []
        self._storage = StorageWatch(plan.nats.store, plan.log("nats"), plan.nats.refuses_to_store)

    @property
    def state(self) -> ClusterState:
        """The current content of the state file."""
        plan, listening = self._plan, self._plan.listening
        return ClusterState(
            phase=self._phase,
            supervisor=self._own,
            nats_url=plan.nats.url,
            monitor_url=plan.nats.monitor_url,
            database_url=redact(plan.database.url),
            database_password_file=plan.database.password_file,
            gateway_url=plan.gateway_url,
            gateway_token_file=str(plan.gateway_token_file),
            requester_seed_file=str(plan.nats.seed_files["requester"]),
            ports=dict(plan.ports),
            processes=tuple(process.state() for process in (*self._servers, *self._services)),
            reason=self._reason,
            authority_file=str((listening and listening.certificate.authority) or ""),
        )

    def run(self) -> None:
        """Start everything, keep it running, and stop it all when a signal asks for it.

        Raises `NotReady` when a server does not come up, and `ProvisionFailed`; everything that
        was started has ended by then.
        """
        try:
            self._enter("servers")
            self._wait_for_servers()
            self._enter("provisioning")
            self._provision()
            self._services = [Supervised(program) for program in self._plan.services()]
            self._enter("services")
            # A service that does not become ready stays visible in the state.
            deadline = time.monotonic() + SERVICES_WITHIN_S
            while not _all_ready(self._services) and time.monotonic() < deadline:
                self._step()
            self._enter("running")
            while True:
                self._step()
        except StopRequested:
            _log.info("stopping")
        except ClusterError as error:
            self._reason = str(error)
            raise
        finally:
            self._stop()

    def _enter(self, phase: str) -> None:
        self._phase = phase
        self._publish()

    def _publish(self) -> None:
        state = self.state
        try:
            write_state(self._plan.folder, state)
        except OSError as error:
            # A full disk must not end what still runs.
            _log.warning("state file not written", extra={"reason": str(error)})
        self._show_state(state)

    def _step(self) -> None:
        """Do what is due for every process; if nothing was, wait for a due time or a signal."""
        if self._waker.stop_requests:
            raise StopRequested
        now_s = time.monotonic()
        processes = [*self._servers, *self._services]
        changes = [process.step(now_s) for process in processes]
        if any(changes):
            self._publish()
            return
        if self._waker.is_news or now_s >= self._logs_due_s:
            # Who sends the signal counts the loads after it: there are some even where the check
            # before has found the change.
            is_asked, self._waker.is_news = self._waker.is_news, False
            self._logs_due_s = now_s + _LOG_CHECK_S
            try:
                if self._servers[0].ready and (self._plan.nats.refresh() or is_asked):
                    self._reloads_due_s = [now_s + delay_s for delay_s in _RELOADS_S]
            except (OSError, ValueError, KeyError) as error:
                # A full disk, or a file of a member that is none, must not end what runs.
                reason = f"{type(error).__name__}: {error}"
                _log.warning("members not read; trying again", extra={"reason": reason})
            if self._storage.is_stuck():
                _log.warning("nats refuses to store although the disk has room; restarting it")
                self._servers[0].end()
            for log in (self._plan.folder / "logs").glob("*.log"):
                bound_log(log)
        if self._reloads_due_s and now_s >= self._reloads_due_s[0]:
            self._reloads_due_s.pop(0)
            self._servers[0].reload()
        delays_s = [process.next_s(time.monotonic()) for process in processes]
        delays_s += [max(0.0, due_s - time.monotonic()) for due_s in self._reloads_due_s[:1]]
        log_delay_s = max(0.0, self._logs_due_s - now_s)
        self._waker.wait(min([log_delay_s, *(s for s in delays_s if s is not None)]))

    def _wait_for_servers(self) -> None:
        """Step until all servers are ready; raise `NotReady` for one that keeps ending or hangs."""
        deadline = time.monotonic() + SERVERS_WITHIN_S
        while not _all_ready(self._servers):
            is_late = time.monotonic() > deadline
            failing = [
                server.program.name
                for server in self._servers
                if server.history.in_a_row >= _EARLY_ENDS or (is_late and not server.ready)
            ]
            if failing:
                log = self._plan.log(failing[0])
                raise NotReady(failing[0], log, last_lines(log))
            self._step()

    def _provision(self) -> None:
        """Run the provisioning command; retry it, as a server may have died meanwhile."""
        for _ in range(PROVISION_TRIES):
            child = Child(self._plan.provision())
            try:
                while (code := child.exit_code()) is None:
                    self._step()
            finally:
                child.stop()
            if code == 0:
                return
            self._wait_for_servers()
        log = self._plan.log("provision")
        raise ProvisionFailed(log, last_lines(log))

    def _stop(self) -> None:
        """Stop services, then servers; a second stop signal kills what still runs."""
        self._enter("stopping")
        for group in (self._services, self._servers):
            for process in group:
                process.ask_to_stop()
            self._await_end(group)
            for process in group:
                process.finish_stop()
        self._enter("failed" if self._reason else "stopped")

    def _await_end(self, group: Sequence[Supervised]) -> None:
        """Wait until a group of processes has ended, at most for as long as they may take."""
        limit_s = max((process.program.stop_within_s for process in group), default=0.0)
        deadline_s = time.monotonic() + limit_s
        while (
            any(process.is_running for process in group)
            and time.monotonic() < deadline_s
            and self._waker.stop_requests <= 1
        ):
            self._waker.wait(0.05)


def _all_ready(processes: Sequence[Supervised]) -> bool:
    return all(process.ready for process in processes)


def run_cluster(
    folder: Path,
    environ: Mapping[str, str],
    own_pid: int,
    show_state: ShowState,
    programs: Programs | None = None,
    address: str = "",
) -> None:
    """Run the cluster of `folder` in this process's main thread until a signal ends it.

    `environ`: the environment of its processes; `own_pid`: the id of this process; `show_state`:
    called with every new state; `programs`: what to run instead of our own services; `address`:
    where other machines reach it, '' for this machine alone. Raises `AlreadyUp`, `NotReady`,
    `ProvisionFailed` and the other errors of `cli.cluster.errors`.
    """
    make_own(folder)
    listening = _listening(folder, address, environ) if address else None
    with (
        folder_lock(folder),
        chosen_ports(folder, environ, address or LOOPBACK) as ports,
        held(ports["gateway"], address or LOOPBACK) as pages_fd,
        Waker() as waker,
    ):
        plan = ClusterPlan(folder, ports, environ, programs or Programs(), listening, pages_fd)
        Supervisor(plan, waker, show_state, own_pid).run()


def _listening(folder: Path, address: str, environ: Mapping[str, str]) -> Listening:
    """Return how other machines reach the cluster. Raises `NotAnAddress`, `ProgramMissing`."""
    if not is_own_address(address):
        raise NotAnAddress(address)
    try:
        from cli.cluster.keys.certificates import Certificate, ensure_certificate
    except ImportError as error:
        raise ProgramMissing("cryptography") from error
    own = Certificate.of(environ)
    return Listening(address, own or ensure_certificate(folder / "keys" / "tls", address))
