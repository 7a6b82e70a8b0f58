"""What TLS, and accounts of one key each, cost: ingest and remote pacing beside a plain broker.

`python -m benchmarks.connections [--spans 300000] [--repeats 5]`

Three brokers in turns (A B C, then C B A, and so on): plain, as `mlscope up` runs it; with TLS, as
`--listen` does; and with all keys in one account, as release 0.1 had them. Medians of the repeats.
Claims: TLS keeps 0.9 of the rows a second, its p99 of lateness is at most 1.1 of the plain one, and
accounts of one key each cost as little beside the single account.
"""

import argparse
import asyncio
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.claims import claim
from benchmarks.cluster import new_folder
from benchmarks.ingest import CASES, World, ingest, open_world
from benchmarks.remote_pacing import QUERIES, RATE_HZ, an_order, responder
from cli.cluster.keys import secret_files
from cli.cluster.keys.certificates import ensure_certificate
from cli.cluster.ports import LOOPBACK
from cli.cluster.servers.nats_server import NatsServer
from mlscope.bus.access.permissions import PERMISSIONS
from mlscope.bus.inboxes import inbox_prefix
from mlscope.load.arrivals import poisson_due_ns
from mlscope.load.load import Load
from services.scheduler.remote_load.continuation import Continuation
from services.scheduler.remote_load.processes import BrokerAddress, issue_load

LEAST_INGEST, MOST_LATENESS = 0.9, 1.1
KINDS = ("plain", "TLS", "one account")


class OneAccountServer(NatsServer):
    """A broker as of release 0.1: every key in one account, with the rights that it has."""

    def configuration(self) -> str:
        """Return the configuration with one account instead of many."""
        head, _, _ = super().configuration().partition("accounts {")
        public = {
            name: secret_files.ensure_key(self.folder / "keys", name).public for name in PERMISSIONS
        }
        answers = [f"{inbox_prefix(name)}.>" for name in PERMISSIONS]
        users = "\n".join(
            f"{{ nkey: {public[name]}, permissions: {{\n"
            f"publish: {{ allow: {_listed([*permission.publish, *answers])} }}\n"
            f"subscribe: {{ allow: {_listed(permission.subscribe)} }}\n}} }}"
            for name, permission in PERMISSIONS.items()
        )
        return f"{head}accounts {{ MLSCOPE {{ jetstream: enabled\nusers: [\n{users}\n] }} }}\n"


def _listed(subjects: "list[str] | tuple[str, ...]") -> str:
    return "[" + ", ".join(f'"{subject}"' for subject in subjects) + "]"


def broker(kind: str, folder: Path) -> NatsServer:
    """Return a broker of one of `KINDS` with its files in `folder`."""
    if kind == "TLS":
        return NatsServer(folder, certificate=ensure_certificate(folder / "tls", LOOPBACK))
    return OneAccountServer(folder) if kind == "one account" else NatsServer(folder)


def authority_file(server: NatsServer) -> Path | None:
    """Return what clients of a broker must trust, if it uses TLS."""
    return server.folder / "tls" / "authority.pem" if server.url.startswith("tls") else None


@dataclass
class Pacing:
    """Loads issued through one broker to a null agent."""

    where: BrokerAddress
    load: Load = field(
        default_factory=lambda: Load(
            "poisson",
            poisson_due_ns(RATE_HZ, QUERIES, 1),
            np.zeros((QUERIES, 1), np.int32),
            0,
            "remote",
        )
    )

    def late_p99_us(self) -> float:
        """Return the 99th percentile of how late queries were issued."""
        issued = asyncio.run(
            issue_load(self.where, an_order(), "r", Continuation.once(self.load), 10.0)
        )
        late_ns = issued.issued_ns - issued.due_ns
        return float(np.percentile(late_ns, 99, method="higher")) / 1e3


@contextmanager
def pacing(server: NatsServer) -> Iterator[Pacing]:
    """Run a null agent on a broker."""
    trusted = authority_file(server)
    agent = multiprocessing.get_context("spawn").Process(
        target=responder, args=(server.url, str(server.seed_files["agent"]), str(trusted or ""))
    )
    agent.start()
    time.sleep(2.0)
    seed = server.seeds["scheduler"]
    try:
        yield Pacing(BrokerAddress(server.url, seed, inbox_prefix("scheduler"), trusted))
    finally:
        agent.terminate()
        agent.join()


def in_turns(measures: dict[str, Callable[[int], float]], repeats: int) -> dict[str, float]:
    """Measure each kind in turns, forth and back; print and return the medians."""
    figures: dict[str, list[float]] = {kind: [] for kind in measures}
    for repeat in range(repeats):
        for kind in list(measures)[:: -1 if repeat % 2 else 1]:
            figures[kind].append(measures[kind](repeat))
            print(f"  {kind:12s} {figures[kind][-1]:12,.1f}", flush=True)
    return {kind: median(values) for kind, values in figures.items()}


def paced(repeats: int) -> dict[str, float]:
    """Return the lateness of each kind, in microseconds."""
    print("issued late, p99, us")
    with ExitStack() as stack:
        measures: dict[str, Callable[[int], float]] = {}
        for kind in KINDS:
            folder = stack.enter_context(new_folder())
            server = stack.enter_context(broker(kind, folder))
            one = stack.enter_context(pacing(server))
            measures[kind] = lambda _, one=one: one.late_p99_us()  # type: ignore[misc]
        return in_turns(measures, repeats)


def ingested(spans: int, repeats: int) -> dict[str, float]:
    """Return the rows a second of each kind."""
    print("rows a second")
    with ExitStack() as stack:
        measures: dict[str, Callable[[int], float]] = {}
        for kind in KINDS:
            world = stack.enter_context(
                open_world("", lambda folder, kind=kind: broker(kind, folder))  # type: ignore[misc]
            )
            measures[kind] = _ingest_of(world, spans)
        return in_turns(measures, repeats)


def _ingest_of(world: World, spans: int) -> Callable[[int], float]:
    return lambda repeat: ingest(world, CASES[0], spans, f"r{repeat}").spans_hz


def main() -> int:
    """Print each repeat and the ratios; return 1 where a claim is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--spans", type=int, default=300_000)
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    late_us, rows_hz = paced(options.repeats), ingested(options.spans, options.repeats)
    is_met = True
    for subject, new, old in (
        ("TLS", "TLS", "plain"),
        ("an account for each key", "plain", "one account"),
    ):
        rows, late = rows_hz[new] / rows_hz[old], late_us[new] / late_us[old]
        is_met &= claim(f"rows a second with {subject}", rows, least=LEAST_INGEST, unit="x")
        is_met &= claim(f"lateness with {subject}, p99", late, most=MOST_LATENESS, unit="x")
        print(f"{subject}: {rows:.2f} of the rows a second, {late:.2f} of the lateness")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
