"""The settings: every `MLSCOPE_*` environment variable, read once when a program starts.

A program's entry point calls `Settings.read(os.environ)`; nothing else reads the environment.
"""
# ruff: noqa: RUF009 (`setting` is `dataclasses.field` with our metadata)

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import MappingProxyType
from typing import Self
from urllib.parse import urlsplit

from mlscope.redaction import redact
from mlscope.settings.errors import InvalidSetting
from mlscope.settings.fields import made_setting, setting, values_in
from mlscope.settings.hosts import is_loopback, with_encryption, with_password
from mlscope.settings.limits import GIB, MIB, Limits
from mlscope.settings.values import (
    LEVELS,
    bytes_of,
    bytes_up_to,
    choice_of,
    flag_of,
    host_token,
    host_token_of,
    hosts_of,
    integer,
    labels_of,
    level_of,
    names_of,
    path_of,
    seconds_of,
    secret_in,
    text_as_it_is,
    url_of,
    url_or_off,
    urls_of,
)


@dataclass(frozen=True, slots=True, repr=False)
class Settings(Limits):
    """All settings; the metadata of each field hold its variable and its meaning."""

    nats_url: str = setting(
        "NATS_URL",
        urls_of("nats", "tls"),
        "nats://127.0.0.1:4222",
        "URL of the NATS server; for a cluster, several URLs separated by commas",
    )
    replicas: int | None = setting(
        "REPLICAS",
        integer(1, 5),
        None,
        "NATS servers that keep each stream, bucket and object store; default: 3 where the cluster "
        "has three, else 1",
    )
    nats_seed_file: Path | None = setting(
        "NATS_SEED_FILE", path_of, None, "file with the nkey seed of this service"
    )
    broker_uid: int | None = setting(
        "BROKER_UID",
        integer(0, 2**32 - 1),
        None,
        "id of the user as whom a broker on this machine's loopback has to run; `mlscope up` sets "
        "it for its services; default: any user",
    )
    tls_authority_file: Path | None = setting(
        "TLS_AUTHORITY_FILE",
        path_of,
        None,
        "file with the certificates of the authority that signs the broker's certificate; default: "
        "the authorities that this machine trusts",
    )
    tls_certificate_file: Path | None = setting(
        "TLS_CERTIFICATE_FILE",
        path_of,
        None,
        "file with the certificate that the gateway shows, and with `mlscope up --listen` the "
        "broker too; default: one that `up` makes",
    )
    tls_key_file: Path | None = setting(
        "TLS_KEY_FILE", path_of, None, "file with the key of that certificate"
    )
    listen: str = setting(
        "LISTEN",
        text_as_it_is,
        "",
        "address on which `mlscope up` listens for other machines, over TLS; "
        "default: loopback only",
    )
    database_url: str = setting(
        "DATABASE_URL",
        url_of("postgresql", "postgres"),
        "postgresql://mlscope@127.0.0.1:5432/mlscope",
        "URL of the database, preferably without its password; on another machine, TLS is required "
        "unless it has an sslmode",
    )
    database_password_file: Path | None = setting(
        "DATABASE_PASSWORD_FILE", path_of, None, "file with the database's password"
    )
    data_folder: Path = setting(
        "DATA",
        path_of,
        Path(".mlscope"),
        "folder of the local cluster, of agents' spools and of the cache",
    )
    cache_folder: Path | None = setting(
        "CACHE", path_of, None, "folder of downloaded assets; default: `cache` in MLSCOPE_DATA"
    )
    fetch_hosts: tuple[str, ...] = setting(
        "FETCH_HOSTS",
        hosts_of,
        ("public",),
        "hosts that models and datasets may be fetched from: names, addresses, networks "
        "(10.0.0.0/8), `public` for every public internet address, or `any`; `pypi`, like these, "
        "lets pip fetch packages from its index",
    )
    hub_url: str = setting(
        "HUB_URL",
        url_or_off("https", "http"),
        "https://huggingface.co",
        "URL of the model hub of hf:// addresses; `off`: none. An agent announces whether the hub "
        "answers, which it tries at its start and every few minutes",
    )
    hub_token_file: Path | None = setting(
        "HUB_TOKEN_FILE", path_of, None, "file with the access token of the hub, if it needs one"
    )
    manifests_folder: Path = setting(
        "MANIFESTS",
        path_of,
        Path(__file__).resolve().parents[2] / "manifests",
        "folder of the manifests that the registry publishes when it starts",
    )
    ready_file: Path | None = setting(
        "READY_FILE",
        path_of,
        None,
        "file that a service writes once it is ready; its health check reads there whom to ask",
    )
    log_level: str = setting("LOG_LEVEL", level_of, "info", f"one of {', '.join(LEVELS)}")

    log_format: str = setting(
        "LOG_FORMAT",
        choice_of("text", "json"),
        "text",
        "format of log lines: text (key=value), or json (one object per line)",
    )
    telemetry_url: str = setting(
        "TELEMETRY_URL",
        url_of("http", "https"),
        "",
        "OTLP/HTTP receiver of mlscope's own OpenTelemetry spans, `http://127.0.0.1:4318` say; "
        "needs the extra `telemetry`; default: none are recorded",
    )
    metrics_port: int = setting(
        "METRICS_PORT",
        integer(0, 65535),
        0,
        "port on which a service answers `/metrics` with its own figures, without a token; "
        "default: none, since the gateway reports those of all services",
    )
    metrics_host: str = setting("METRICS_HOST", text_as_it_is, "127.0.0.1", "address of that port")
    restarts: int = setting(
        "RESTARTS",
        integer(0, 2**31),
        0,
        "how often this service was restarted; `mlscope up` sets it",
    )

    gateway_host: str = setting(
        "GATEWAY_HOST", text_as_it_is, "127.0.0.1", "address on which the gateway listens"
    )
    gateway_port: int = setting(
        "GATEWAY_PORT", integer(0, 65535), 8080, "port on which the gateway listens"
    )
    gateway_fd: int | None = setting(
        "GATEWAY_FD", integer(3, 1 << 20), None, "descriptor of its socket; `mlscope up` sets it"
    )
    gateway_token_file: Path | None = setting(
        "GATEWAY_TOKEN_FILE",
        path_of,
        None,
        "file with the gateway's bearer token; default on loopback: that of the local cluster",
    )
    gateway_url: str = setting(
        "GATEWAY_URL", url_of("http", "https"), "", "public URL of the gateway, used in replies"
    )

    agent_id: str = made_setting(
        "AGENT_ID",
        host_token_of,
        host_token,
        "name of this agent, unique among all agents; dots become hyphens; default: the host name",
    )
    agent_labels: Mapping[str, str] = made_setting(
        "AGENT_LABELS",
        labels_of,
        lambda: MappingProxyType({}),
        "labels of this agent that requests may require: key=value,key=value",
    )
    agent_image: str = setting(
        "AGENT_IMAGE", text_as_it_is, "", "container image that this agent runs in"
    )
    containers: str = setting(
        "CONTAINERS",
        choice_of("docker", "podman"),
        "",
        "container engine in which an agent may start sessions, in the images of its own framework "
        "manifests: docker or podman; default: none",
    )
    agent_predictors: tuple[str, ...] = setting(
        "AGENT_PREDICTORS", names_of, (), "predictors to offer, by entry point; default: all"
    )
    dataset_folders: tuple[str, ...] = setting(
        "DATASET_FOLDERS",
        names_of,
        (),
        "folders of this host in which an agent may read datasets",
    )
    allow_inline_python: bool = setting(
        "ALLOW_INLINE_PYTHON",
        flag_of,
        False,
        "run Python code in models' manifests, in a separate process that may only compute",
    )
    inline_timeout_s: float = setting(
        "INLINE_TIMEOUT_S", seconds_of, 10.0, "wall time limit of one call of inline Python"
    )
    inline_cpu_s: int = setting(
        "INLINE_CPU_S",
        integer(1, 86_400),
        10,
        "processor time limit of one call of inline Python, in seconds",
    )
    inline_memory_bytes: int = setting(
        "INLINE_MEMORY_BYTES",
        bytes_of,
        GIB,
        "memory limit of the process that runs inline Python, in addition to the interpreter's",
    )
    inline_output_bytes: int = setting(
        "INLINE_OUTPUT_BYTES",
        bytes_up_to(GIB),
        64 * MIB,
        "size limit of the result of one call of inline Python",
    )
    models: str = setting(
        "MODELS",
        choice_of("catalog", "any"),
        "",
        "whose models an agent opens: catalog: only those of its own MLSCOPE_MANIFESTS, with "
        "verified files; any: also those in requests and those that others publish; default: any "
        "if the NATS server is on loopback, else catalog",
    )
    sandbox: str = setting(
        "SANDBOX",
        choice_of("auto", "required", "off"),
        "auto",
        "whether an agent confines the processes of models to their own files (Linux's Landlock): "
        "auto: if the kernel supports it, except sessions replayed by ncu; required: always, "
        "otherwise the agent does not start; off: never",
    )
    worker_user: str = setting(
        "WORKER_USER",
        choice_of("auto", "own", "agent"),
        "auto",
        "user of the processes of models if the agent runs as root: own: each has a user of its "
        "own, unless only root can read or use what it needs; auto: the same on the CPU and on "
        "GPUs of NVIDIA, root on other accelerators; agent: root",
    )
    sandbox_devices: tuple[str, ...] = setting(
        "SANDBOX_DEVICES",
        names_of,
        (),
        "further device files that models may use, as patterns below /dev (`xdma*`), for boards "
        "that mlscope does not know",
    )
    worker_variables: tuple[str, ...] = setting(
        "WORKER_VARIABLES",
        names_of,
        (),
        "environment variables that models' processes get although they look like secrets",
    )
    prepare_processes: int = setting(
        "PREPARE_PROCESSES",
        integer(0, 64),
        64,
        "limit of the processes that prepare streamed samples; 0: threads of the worker prepare "
        "them, which slows its model down",
    )
    prepare_timeout_s: float = setting(
        "PREPARE_TIMEOUT_S",
        seconds_of,
        60.0,
        "time limit for preparing one sample: in a separate process the sample fails alone, in "
        "the model's own process its session's runs end",
    )
    builders: tuple[str, ...] = setting(
        "BUILDERS",
        names_of,
        (),
        "modules whose functions may build models, including their submodules; default: built in",
    )
    remote_hosts: tuple[str, ...] = setting(
        "REMOTE_HOSTS",
        names_of,
        (),
        "hosts, in addition to this one, whose model servers an agent may query",
    )

    def __post_init__(self) -> None:
        """Check that the settings are compatible. Raises InvalidSetting."""
        if self.heartbeat_s >= self.lease_ttl_s:
            raise InvalidSetting(
                "MLSCOPE_HEARTBEAT_S",
                f"{self.heartbeat_s:g}",
                f"less than MLSCOPE_LEASE_TTL_S ({self.lease_ttl_s:g})",
            )
        if self.gateway_token_file is None and not is_loopback(self.gateway_host):
            raise InvalidSetting(
                "MLSCOPE_GATEWAY_TOKEN_FILE",
                "",
                "a file, because the gateway does not listen on loopback only",
            )

    @classmethod
    def read(cls, environ: Mapping[str, str]) -> Self:
        """Return the settings in the variables of `environ`; an empty variable counts as unset.

        Of others only libpq's PGSSLMODE counts: without it, and without an `sslmode` in the URL, a
        database on another machine is asked for TLS. Raises InvalidSetting, which names the
        variable.
        """
        settings = cls(**values_in(environ, fields(cls)))
        if "PGSSLMODE" in environ:
            return settings
        return replace(settings, database_url=with_encryption(settings.database_url))

    @property
    def gateway_address(self) -> str:
        """The gateway's URL for users: the public URL if set, else the address it listens on."""
        scheme = "http" if self.tls_certificate_file is None else "https"
        return self.gateway_url or f"{scheme}://{self.gateway_host}:{self.gateway_port}"

    @property
    def assets_folder(self) -> Path:
        """The folder of the cache of downloaded assets."""
        return self.cache_folder or self.data_folder / "cache"

    def hub_token(self) -> str | None:
        """Read the hub's access token, a secret; None if there is none."""
        return None if self.hub_token_file is None else secret_in(self.hub_token_file)

    @property
    def opens_any_model(self) -> bool:
        """Whether an agent also opens models that are not its owner's.

        By default it does if the NATS server is on loopback: then only this machine's users ask.
        """
        hosts = [urlsplit(url).hostname or "" for url in self.nats_url.split(",")]
        return self.models == "any" or (not self.models and all(map(is_loopback, hosts)))

    @property
    def may_number_agent(self) -> bool:
        """Whether the agent may add a number to a name that is taken: only to that of its host."""
        return self.agent_id == host_token()

    def nats_seed(self) -> str | None:
        """Read the nkey seed, a secret; None if this connection has none."""
        return None if self.nats_seed_file is None else secret_in(self.nats_seed_file)

    @property
    def secret_paths(self) -> tuple[Path, ...]:
        """The folder of the cluster's data, and the files with secrets: not for models to read."""
        files = (
            self.nats_seed_file,
            self.database_password_file,
            self.gateway_token_file,
            self.hub_token_file,
            self.tls_key_file,
        )
        return (self.data_folder, *(file for file in files if file is not None))

    def gateway_token(self) -> str | None:
        """Read the gateway's bearer token, a secret; None if it needs none."""
        return None if self.gateway_token_file is None else secret_in(self.gateway_token_file)

    def database_conninfo(self) -> str:
        """Return the database's URL with its password, a secret."""
        if self.database_password_file is None:
            return self.database_url
        return with_password(self.database_url, secret_in(self.database_password_file))

    def __repr__(self) -> str:
        """Return the settings without secrets."""
        shown = (f"{declared.name}={getattr(self, declared.name)!r}" for declared in fields(self))
        return redact(f"Settings({', '.join(shown)})")
