"""The loop behind `mlscope up`: servers, then provisioning, then services, all kept running."""

import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from cli.cluster.child import Child, last_lines
from cli.cluster.errors import ClusterError, NotReady, ProvisionFailed
from cli.cluster.identity import identify
from cli.cluster.logfiles import bound
from cli.cluster.plan import ClusterPlan, Programs, chosen_ports
from cli.cluster.state import ClusterState, folder_lock, write_state
from cli.cluster.storage import StorageWatch
from cli.cluster.supervised import Supervised
from cli.cluster.waker import Waker
from mlscope.redaction import redact

_log = logging.getLogger(__name__)

SERVERS_WITHIN_S = 90.0
PROVISION_TRIES = 4
SERVICES_WITHIN_S = 30.0
_EARLY_ENDS = 4
_LOG_CHECK_S = 5.0

Shown = Callable[[ClusterState], None]
"""Called with every new state: writes a line, or nothing."""


class Stopped(Exception):
    """Somebody asked the cluster to stop."""


class Supervisor:
    """Runs a planned cluster until it is asked to stop; `run` returns when nothing is left."""

    def __init__(self, plan: ClusterPlan, waker: Waker, shown: Shown, own_pid: int) -> None:
        """Take what to run, what wakes it, where its state is shown and who it is."""
        self._plan = plan
        self._waker = waker
        self._shown = shown
        self._own = identify(own_pid)
        self._servers = [Supervised(program) for program in plan.servers()]
        self._services: list[Supervised] = []
        self._phase = "servers"
        self._reason = ""
        self._logs_due_s = 0.0
        self._storage = StorageWatch(plan.folder, plan.log("nats"))

    @property
    def state(self) -> ClusterState:
        """What the state file says now."""
        plan = self._plan
        return ClusterState(
            phase=self._phase,
            supervisor=self._own,
            nats_url=plan.nats.url,
            monitor_url=f"http://{plan.nats.host}:{plan.nats.monitor_port}",
            database_url=redact(plan.database.url),
            database_password_file=plan.database.password_file,
            gateway_url=plan.gateway_url,
            requester_seed_file=str(plan.nats.seed_files["requester"]),
            ports=dict(plan.ports),
            processes=tuple(one.state() for one in (*self._servers, *self._services)),
            reason=self._reason,
        )

    def run(self) -> None:
        """Start everything, keep it running, and stop it all when a signal asks for it.

        Raises NotReady when a server does not come up and ProvisionFailed; nothing is left then.
        """
        try:
            self._enter("servers")
            self._until_ready(self._servers, SERVERS_WITHIN_S)
            self._enter("provisioning")
            self._provision()
            self._services = [Supervised(program) for program in self._plan.services()]
            self._enter("services")
            self._settle(SERVICES_WITHIN_S)
            self._enter("running")
            while True:
                self._turn()
        except Stopped:
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
        self._shown(state)

    def _turn(self) -> None:
        """Do what is due for every process; if that was nothing, wait for a due time or signal."""
        if self._waker.stop_wishes:
            raise Stopped
        now_s = time.monotonic()
        everyone = [*self._servers, *self._services]
        changed = [one.step(now_s) for one in everyone]
        if any(changed):
            self._publish()
            return
        if now_s >= self._logs_due_s:
            self._logs_due_s = now_s + _LOG_CHECK_S
            self._look_after_disk()
        dues = [due for one in everyone if (due := one.next_s(time.monotonic())) is not None]
        self._waker.wait(min([*dues, max(0.0, self._logs_due_s - now_s)]))

    def _look_after_disk(self) -> None:
        """Keep the logs short, and end a server that has not noticed that there is room again."""
        if self._storage.is_stuck():
            _log.warning("nats does not store although there is room: it starts anew")
            self._servers[0].end()
        for log in (self._plan.folder / "logs").glob("*.log"):
            bound(log)

    def _until_ready(self, wanted: list[Supervised], within_s: float) -> None:
        """Turn until all are ready; a server that keeps ending, or takes too long, is an error."""
        deadline = time.monotonic() + within_s
        while not all(one.ready for one in wanted):
            for one in wanted:
                late = not one.ready and time.monotonic() > deadline
                if late or one.history.in_a_row >= _EARLY_ENDS:
                    log = self._plan.log(one.program.name)
                    raise NotReady(one.program.name, log, last_lines(log))
            self._turn()

    def _provision(self) -> None:
        """Run the provisioning; again when it fails, as a server may have died under it."""
        for _ in range(PROVISION_TRIES):
            child = Child(self._plan.provision())
            try:
                while (code := child.exit_code()) is None:
                    self._turn()
            finally:
                child.stop()
            if code == 0:
                return
            self._until_ready(self._servers, SERVERS_WITHIN_S)
        log = self._plan.log("provision")
        raise ProvisionFailed(log, last_lines(log))

    def _settle(self, within_s: float) -> None:
        """Turn until every service is ready, at most `within_s`: one that is ill stays visible."""
        deadline = time.monotonic() + within_s
        while not all(one.ready for one in self._services) and time.monotonic() < deadline:
            self._turn()

    def _stop(self) -> None:
        """Stop services, then servers, each group at once; a second wish to stop hurries."""
        self._enter("stopping")
        for group in (self._services, self._servers):
            for one in group:
                one.ask_to_stop()
            limit_s = max((one.program.stop_within_s for one in group), default=0.0)
            deadline = time.monotonic() + limit_s
            while any(one.runs for one in group) and time.monotonic() < deadline:
                if self._waker.stop_wishes > 1:
                    break
                self._waker.wait(0.05)
            for one in group:
                one.finish_stop()
        self._enter("failed" if self._reason else "stopped")


def run_cluster(
    folder: Path,
    environ: Mapping[str, str],
    own_pid: int,
    shown: Shown,
    programs: Programs | None = None,
) -> None:
    """Run the cluster of `folder` in this process's main thread until a signal ends it.

    Raises AlreadyUp, NotReady, ProvisionFailed and the other errors of `cli.cluster.errors`.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with folder_lock(folder), chosen_ports(folder, environ) as chosen, Waker() as waker:
        plan = ClusterPlan(folder, chosen, environ, programs or Programs())
        Supervisor(plan, waker, shown, own_pid).run()
