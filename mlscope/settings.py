"""What can be set from outside: every `MLSCOPE_*` variable, read once at the edge.

A service's entry point calls `Settings.read(os.environ)`; nothing else looks at the environment.
"""
# ruff: noqa: RUF009 (`_setting` is `dataclasses.field` with our metadata)

import re
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from ipaddress import ip_address
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar
from urllib.parse import quote, urlsplit, urlunsplit

from mlscope.redaction import redact
from mlscope.setting_values import (
    LEVELS,
    Parse,
    Unusable,
    bytes_of,
    bytes_or_none,
    bytes_up_to,
    flag_of,
    labels_of,
    level_of,
    names_of,
    path_of,
    seconds_of,
    text_as_it_is,
    token_of,
    url_of,
    urls_of,
    whole,
)

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

_T = TypeVar("_T")


class InvalidSetting(ValueError):
    """A setting's value cannot be used."""

    def __init__(self, name: str, value: str, expected: str) -> None:
        """Name the variable, what it held and what it should hold."""
        self.name = name
        self.value = value
        self.expected = expected
        super().__init__(f"{name}={redact(value)}: expected {expected}")


def _metadata(variable: str, parse: Parse, meaning: str) -> dict[str, Any]:
    return {"variable": f"MLSCOPE_{variable}", "parse": parse, "meaning": meaning}


def _setting(variable: str, parse: Parse, default: _T, meaning: str) -> _T:
    """Declare a field: the variable it is read from, how, its default and what it means."""
    return field(default=default, metadata=_metadata(variable, parse, meaning))


def _made_setting(variable: str, parse: Parse, make: Callable[[], _T], meaning: str) -> _T:
    """Declare a field whose default depends on the machine or must not be shared."""
    return field(default_factory=make, metadata=_metadata(variable, parse, meaning))


def _own_name() -> str:
    """Return a token made of this machine's name."""
    return re.sub(r"[^A-Za-z0-9_-]", "-", socket.gethostname())[:64] or "agent"


def _no_labels() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True, repr=False)
class Settings:
    """Everything that can be set; each field names its variable and meaning in its metadata."""

    nats_url: str = _setting(
        "NATS_URL",
        urls_of("nats", "tls"),
        "nats://127.0.0.1:4222",
        "the NATS server; several of one cluster, comma separated",
    )
    nats_seed_file: Path | None = _setting(
        "NATS_SEED_FILE", path_of, None, "file with the nkey seed of this service"
    )
    database_url: str = _setting(
        "DATABASE_URL",
        url_of("postgresql", "postgres"),
        "postgresql://mlscope@127.0.0.1:5432/mlscope",
        "the database, best without its password",
    )
    database_password_file: Path | None = _setting(
        "DATABASE_PASSWORD_FILE", path_of, None, "file with the database's password"
    )
    data_folder: Path = _setting(
        "DATA", path_of, Path(".mlscope"), "folder of the local cluster, spools and caches"
    )
    cache_folder: Path | None = _setting(
        "CACHE", path_of, None, "folder of downloaded assets; default: below MLSCOPE_DATA"
    )
    cache_max_bytes: int = _setting(
        "CACHE_MAX_BYTES", bytes_of, 32 * GIB, "assets kept, before the longest unused go"
    )
    hub_url: str = _setting(
        "HUB_URL", url_of("https", "http"), "", "the model hub that hf:// addresses lead to"
    )
    hub_token_file: Path | None = _setting(
        "HUB_TOKEN_FILE", path_of, None, "file with the hub's token, where it asks for one"
    )
    manifests_folder: Path = _setting(
        "MANIFESTS",
        path_of,
        Path(__file__).resolve().parent.parent / "manifests",
        "folder of the manifests that are published at start",
    )
    ready_file: Path | None = _setting(
        "READY_FILE", path_of, None, "file a service makes once it answers (for its supervisor)"
    )
    log_level: str = _setting("LOG_LEVEL", level_of, "info", f"one of {', '.join(LEVELS)}")

    gateway_host: str = _setting(
        "GATEWAY_HOST", text_as_it_is, "127.0.0.1", "where the gateway listens"
    )
    gateway_port: int = _setting("GATEWAY_PORT", whole(0, 65535), 8080, "port of the gateway")
    gateway_token_file: Path | None = _setting(
        "GATEWAY_TOKEN_FILE", path_of, None, "file with the bearer token; needed beyond loopback"
    )
    gateway_url: str = _setting(
        "GATEWAY_URL", url_of("http", "https"), "", "the gateway's public address, used in replies"
    )

    agent_id: str = _made_setting(
        "AGENT_ID", token_of, _own_name, "this agent's name, unique in a fleet; default: the host's"
    )
    agent_labels: Mapping[str, str] = _made_setting(
        "AGENT_LABELS", labels_of, _no_labels, "labels to match requests on: key=value,key=value"
    )
    agent_image: str = _setting(
        "AGENT_IMAGE", text_as_it_is, "", "container image this agent runs in"
    )
    agent_predictors: tuple[str, ...] = _setting(
        "AGENT_PREDICTORS", names_of, (), "predictors to offer, by entry point; none named: all"
    )
    dataset_folders: tuple[str, ...] = _setting(
        "DATASET_FOLDERS",
        names_of,
        (),
        "folders of this host below which datasets are read in place",
    )
    allow_inline_python: bool = _setting(
        "ALLOW_INLINE_PYTHON",
        flag_of,
        False,
        "run the Python that models bring, in a process of its own that may only compute",
    )
    inline_timeout_s: float = _setting(
        "INLINE_TIMEOUT_S", seconds_of, 10.0, "wall time of one call of such Python"
    )
    inline_cpu_s: int = _setting(
        "INLINE_CPU_S", whole(1, 86_400), 10, "processor time of one call, in seconds"
    )
    inline_memory_bytes: int = _setting(
        "INLINE_MEMORY_BYTES", bytes_of, GIB, "memory of its process, beside Python's own"
    )
    inline_output_bytes: int = _setting(
        "INLINE_OUTPUT_BYTES", bytes_up_to(GIB), 64 * MIB, "what one call may answer"
    )
    builders: tuple[str, ...] = _setting(
        "BUILDERS",
        names_of,
        (),
        "import paths at or below which functions may make models; none named: the shipped list",
    )
    remote_hosts: tuple[str, ...] = _setting(
        "REMOTE_HOSTS", names_of, (), "hosts beside this one whose model servers may be asked"
    )

    max_pending_requests: int = _setting(
        "MAX_PENDING_REQUESTS", whole(1, 1_000_000), 1000, "requests waiting before `busy`"
    )
    max_request_bytes: int = _setting(
        "MAX_REQUEST_BYTES",
        bytes_up_to(8 * MIB),
        4 * MIB,
        "size above which a request is refused; the NATS server takes no message above 8 MiB",
    )
    max_open_evaluations: int = _setting(
        "MAX_OPEN_EVALUATIONS", whole(1, 1_000_000), 10_000, "evaluations open before `busy`"
    )
    max_listed_evaluations: int = _setting(
        "MAX_LISTED_EVALUATIONS", whole(1, 1_000_000), 10_000, "ended evaluations that lists show"
    )
    max_live_clients: int = _setting(
        "MAX_LIVE_CLIENTS", whole(1, 100_000), 256, "open event streams of a gateway"
    )
    ring_bytes: int = _setting("RING_BYTES", bytes_of, 16 * MIB, "shared memory worker to agent")
    spool_max_bytes: int = _setting(
        "SPOOL_MAX_BYTES",
        bytes_of,
        GIB,
        "batches kept on the agent's disk before drops are counted",
    )
    worker_memory_bytes: int = _setting(
        "WORKER_MEMORY_BYTES",
        bytes_or_none,
        0,
        "memory a worker of an agent may hold, looked at 20 times a second; 0 is no bound",
    )
    traces_max_bytes: int = _setting("TRACES_MAX_BYTES", bytes_of, 4 * GIB, "stream TRACES")
    queries_max_bytes: int = _setting("QUERIES_MAX_BYTES", bytes_of, 2 * GIB, "stream QUERIES")
    payloads_max_bytes: int = _setting(
        "PAYLOADS_MAX_BYTES", bytes_of, 4 * GIB, "each object store of facts above 512 KiB"
    )
    artifacts_max_bytes: int = _setting(
        "ARTIFACTS_MAX_BYTES", bytes_of, 8 * GIB, "object store of `mlscope artifacts`"
    )
    uploads_max_bytes: int = _setting(
        "UPLOADS_MAX_BYTES", bytes_of, GIB, "what requesters upload, each for a day, in all"
    )
    lease_ttl_s: float = _setting("LEASE_TTL_S", seconds_of, 15.0, "silence that loses a lease")
    heartbeat_s: float = _setting("HEARTBEAT_S", seconds_of, 3.0, "time between lease renewals")
    forget_agents_after_s: float = _setting(
        "FORGET_AGENTS_AFTER_S", seconds_of, 86_400.0, "time gone agents stay in the catalog"
    )
    max_gone_agents: int = _setting(
        "MAX_GONE_AGENTS", whole(1, 1_000_000), 256, "gone agents kept; the longest gone go first"
    )
    run_silence_s: float = _setting(
        "RUN_SILENCE_S", seconds_of, 30.0, "time without a sign of life that ends a run"
    )
    run_attempts: int = _setting(
        "RUN_ATTEMPTS", whole(1, 100), 5, "attempts of a run that loses its agent or its load"
    )
    agent_grace_s: float = _setting(
        "AGENT_GRACE_S", seconds_of, 30.0, "least wait of an accepted evaluation for an agent"
    )
    analysis_wait_s: float = _setting(
        "ANALYSIS_WAIT_S", seconds_of, 1800.0, "silence of the analyzer that fails an evaluation"
    )
    analysis_max_spans: int = _setting(
        "ANALYSIS_MAX_SPANS",
        whole(1, 1_000_000_000),
        4_000_000,
        "spans read of an evaluation, some 600 bytes of memory each; its tables say what was not",
    )
    batch_deadline_s: float = _setting(
        "BATCH_DEADLINE_S", seconds_of, 60.0, "wait for missing batches before a run is incomplete"
    )
    purge_after_s: float = _setting(
        "PURGE_AFTER_S", seconds_of, 60.0, "time a recorded run's messages stay in their streams"
    )

    def __post_init__(self) -> None:
        """Refuse settings that exclude each other. Raises InvalidSetting."""
        if self.heartbeat_s >= self.lease_ttl_s:
            raise InvalidSetting(
                "MLSCOPE_HEARTBEAT_S", f"{self.heartbeat_s:g}", f"less than {self.lease_ttl_s:g}"
            )
        if self.gateway_token_file is None and not is_loopback(self.gateway_host):
            raise InvalidSetting(
                "MLSCOPE_GATEWAY_TOKEN_FILE", "", "a file, as the gateway listens beyond loopback"
            )

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings that `environ` asks for; an empty variable counts as unset.

        Raises InvalidSetting, which names the variable. Variables of others are not looked at.
        """
        values: dict[str, Any] = {}
        for declared in fields(cls):
            variable = declared.metadata["variable"]
            text = environ.get(variable, "").strip()
            if not text:
                continue
            try:
                values[declared.name] = declared.metadata["parse"](text)
            except Unusable as unusable:
                raise InvalidSetting(variable, text, str(unusable)) from None
        return cls(**values)

    @property
    def gateway_address(self) -> str:
        """Where people reach the gateway: the public address if set, else where it listens."""
        return self.gateway_url or f"http://{self.gateway_host}:{self.gateway_port}"

    @property
    def assets_folder(self) -> Path:
        """Where the cache of downloaded assets is."""
        return self.cache_folder or self.data_folder / "cache"

    def hub_token(self) -> str | None:
        """Read the hub's token: a secret. None when there is none."""
        return None if self.hub_token_file is None else _secret(self.hub_token_file)

    @property
    def may_number_agent(self) -> bool:
        """Whether the agent may add a number to its name where that is taken: it is the host's."""
        return self.agent_id == _own_name()

    def nats_seed(self) -> str | None:
        """Read the nkey seed: a secret. None when this connection has none."""
        return None if self.nats_seed_file is None else _secret(self.nats_seed_file)

    def gateway_token(self) -> str | None:
        """Read the bearer token: a secret. None when none is asked for."""
        return None if self.gateway_token_file is None else _secret(self.gateway_token_file)

    def database_conninfo(self) -> str:
        """Return the database's URL with its password in it: a secret."""
        if self.database_password_file is None:
            return self.database_url
        parts = urlsplit(self.database_url)
        user, _, place = parts.netloc.rpartition("@")
        name, password = user.partition(":")[0], _secret(self.database_password_file)
        return urlunsplit(parts._replace(netloc=f"{name}:{quote(password, safe='')}@{place}"))

    def __repr__(self) -> str:
        """Return the settings without secrets."""
        shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self))
        return redact(f"Settings({', '.join(shown)})")


def _secret(path: Path) -> str:
    return path.read_text("utf-8").strip()


def is_loopback(host: str) -> bool:
    """Tell whether only this machine can reach what listens on `host`."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def documentation() -> list[tuple[str, str, str]]:
    """Return (variable, default, meaning) of every setting, in order."""
    defaults = Settings()
    return [
        (one.metadata["variable"], _shown(getattr(defaults, one.name)), one.metadata["meaning"])
        for one in fields(Settings)
    ]


def _shown(default: object) -> str:
    return ",".join(default) if isinstance(default, tuple) else str(default or "")


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Return the `MLSCOPE_*` variables in `environ` that set nothing: typing errors, mostly."""
    known = {one.metadata["variable"] for one in fields(Settings)}
    return sorted(name for name in environ if name.startswith("MLSCOPE_") and name not in known)
