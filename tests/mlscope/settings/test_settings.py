"""Settings come from the environment, or are refused by name."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.settings import InvalidSetting, Settings, is_loopback
from mlscope.settings.hosts import with_password
from mlscope.settings.reference import documentation

SEED = "SU" + "A" * 56


@pytest.mark.parametrize(
    ("models", "nats_url", "opens_any"),
    [
        ("", "nats://127.0.0.1:4222", True),
        ("", "nats://localhost:1,nats://[::1]:2", True),
        ("", "tls://10.0.0.7:4222", False),
        ("", "nats://127.0.0.1:4222,nats://nats:4222", False),
        ("any", "tls://10.0.0.7:4222", True),
        ("catalog", "nats://127.0.0.1:4222", False),
    ],
)
def test_whose_models_are_opened(models: str, nats_url: str, opens_any: bool) -> None:
    settings = Settings.read({"MLSCOPE_MODELS": models, "MLSCOPE_NATS_URL": nats_url})
    assert settings.opens_any_model is opens_any


def test_nothing_set_means_this_machine() -> None:
    settings = Settings.read({})
    assert settings.nats_url == "nats://127.0.0.1:4222"
    assert settings.gateway_address == "http://127.0.0.1:8080"
    assert settings.data_folder == Path(".mlscope")
    assert settings.manifests_folder.name == "manifests"
    assert settings.nats_seed() is None


def test_each_kind_of_value_is_read() -> None:
    settings = Settings.read(
        {
            "MLSCOPE_AGENT_LABELS": "rack=7, gpu=none",
            "MLSCOPE_AGENT_PREDICTORS": "onnxruntime,torch",
            "MLSCOPE_ALLOW_INLINE_PYTHON": "yes",
            "MLSCOPE_SPOOL_MAX_BYTES": "3 MiB",
            "MLSCOPE_WORKER_MEMORY_BYTES": "0",
            "MLSCOPE_LEASE_TTL_S": "4.5",
            "MLSCOPE_GATEWAY_PORT": "9000",
            "MLSCOPE_DATA": "/srv/mlscope",
        }
    )
    assert dict(settings.agent_labels) == {"rack": "7", "gpu": "none"}
    assert settings.agent_predictors == ("onnxruntime", "torch")
    assert settings.allow_inline_python is True
    assert settings.spool_max_bytes == 3 << 20
    assert settings.worker_memory_bytes == 0
    assert settings.lease_ttl_s == 4.5
    assert settings.gateway_port == 9000
    assert settings.data_folder == Path("/srv/mlscope")


def test_several_servers_are_taken() -> None:
    urls = "tls://a.example:4222, nats://b.example"
    settings = Settings.read({"MLSCOPE_NATS_URL": urls})
    assert settings.nats_url == "tls://a.example:4222,nats://b.example"


@pytest.mark.parametrize("urls", ["ws://a:1", "nats://a:1,wss://b:2", ",", "nats://a:1,b:2"])
def test_servers_nobody_can_speak_to_are_refused_by_name(urls: str) -> None:
    with pytest.raises(InvalidSetting, match="MLSCOPE_NATS_URL"):
        Settings.read({"MLSCOPE_NATS_URL": urls})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("MLSCOPE_GATEWAY_PORT", "http"),
        ("MLSCOPE_GATEWAY_PORT", "65536"),
        ("MLSCOPE_MAX_PENDING_REQUESTS", "0"),
        ("MLSCOPE_LEASE_TTL_S", "nan"),
        ("MLSCOPE_LEASE_TTL_S", "-1"),
        ("MLSCOPE_RING_BYTES", "12 MB"),
        ("MLSCOPE_RING_BYTES", "0"),
        ("MLSCOPE_ALLOW_INLINE_PYTHON", "maybe"),
        ("MLSCOPE_AGENT_ID", "two words"),
        ("MLSCOPE_AGENT_LABELS", "rack"),
        ("MLSCOPE_LOG_LEVEL", "loud"),
        ("MLSCOPE_DATA", "~0/x"),
        ("MLSCOPE_NATS_URL", "127.0.0.1:4222"),
        ("MLSCOPE_DATABASE_URL", "mysql://db/x"),
        ("MLSCOPE_DATABASE_URL", "postgresql://[::1/x"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(name: str, value: str) -> None:
    with pytest.raises(InvalidSetting) as refused:
        Settings.read({name: value})
    assert (refused.value.name, refused.value.value) == (name, value)
    assert refused.value.expected


def refusal(variable: str, text: str) -> str | None:
    """Return the variable that is refused, or None."""
    try:
        Settings.read({variable: text})
    except InvalidSetting as error:
        return error.name
    return None


@given(st.text(max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    others = {None, "MLSCOPE_HEARTBEAT_S", "MLSCOPE_GATEWAY_TOKEN_FILE"}
    for variable, _, _ in documentation():
        assert refusal(variable, text) in {variable, *others}


def test_a_heartbeat_must_fit_into_the_lease() -> None:
    with pytest.raises(InvalidSetting, match="MLSCOPE_HEARTBEAT_S"):
        Settings.read({"MLSCOPE_LEASE_TTL_S": "2", "MLSCOPE_HEARTBEAT_S": "2"})


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "bench.example"])
def test_beyond_loopback_the_gateway_needs_a_token(host: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSetting, match="MLSCOPE_GATEWAY_TOKEN_FILE"):
        Settings.read({"MLSCOPE_GATEWAY_HOST": host})
    (tmp_path / "token").write_text("t0ken\n")
    settings = Settings.read(
        {"MLSCOPE_GATEWAY_HOST": host, "MLSCOPE_GATEWAY_TOKEN_FILE": str(tmp_path / "token")}
    )
    assert settings.gateway_token() == "t0ken"


def test_loopback_has_several_names() -> None:
    assert all(is_loopback(host) for host in ("127.0.0.1", "127.8.8.8", "::1", "localhost"))


def test_the_password_joins_the_url_only_when_asked(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text("s3cr/t\n")
    settings = Settings.read(
        {
            "MLSCOPE_DATABASE_URL": "postgresql://me@db:5433/x?connect_timeout=3",
            "MLSCOPE_DATABASE_PASSWORD_FILE": str(tmp_path / "pw"),
        }
    )
    expected = "postgresql://me:s3cr%2Ft@db:5433/x?connect_timeout=3&sslmode=require"
    assert settings.database_conninfo() == expected
    assert "s3cr" not in repr(settings)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("", "?require_auth=scram-sha-256"),
        ("?connect_timeout=3", "?connect_timeout=3&require_auth=scram-sha-256"),
        ("?require_auth=password", "?require_auth=password"),
    ],
)
def test_on_loopback_a_password_is_proved_and_not_sent(query: str, expected: str) -> None:
    url = with_password(f"postgresql://me@127.0.0.1:5433/x{query}", "pw")
    assert url == f"postgresql://me:pw@127.0.0.1:5433/x{expected}"


@pytest.mark.parametrize(
    ("place", "query"),
    [
        ("me@db", "sslmode=require"),
        ("me@[::1]:5432,db:5433", "sslmode=require"),
        ("me@", "host=/tmp,db&sslmode=require"),
        ("me@localhost", "hostaddr=192.0.2.7&sslmode=require"),
        ("me@db", "sslmode=disable"),
        ("me@127.0.0.1:5432", ""),
        ("me@[::1]:5432,localhost", ""),
        ("me@%2Frun%2Fpostgresql", ""),
    ],
)
def test_a_database_elsewhere_is_asked_for_tls(place: str, query: str) -> None:
    """`query` is what the address has in the end; an `sslmode=require` in it is added."""
    given = query.removesuffix("sslmode=require").removesuffix("&")
    url = f"postgresql://{place}/x?{given}".removesuffix("?")
    environ = {"MLSCOPE_DATABASE_URL": url}
    asked = Settings.read(environ).database_conninfo()
    assert asked == f"postgresql://{place}/x?{query}".removesuffix("?")
    assert Settings.read({**environ, "PGSSLMODE": "verify-full"}).database_conninfo() == url


def test_a_secret_in_a_value_shows_nowhere() -> None:
    settings = Settings.read({"MLSCOPE_DATABASE_URL": "postgresql://me:hunter2@db/x"})
    assert "hunter2" not in repr(settings)
    with pytest.raises(InvalidSetting) as refused:
        Settings.read({"MLSCOPE_DATABASE_URL": "mysql://me:hunter2@db/x"})
    assert "hunter2" not in str(refused.value)


def test_only_the_host_s_own_name_may_get_a_number() -> None:
    assert Settings.read({}).may_number_agent
    assert not Settings.read({"MLSCOPE_AGENT_ID": "chosen-by-hand"}).may_number_agent


def test_the_manifests_are_by_default_those_that_mlscope_ships() -> None:
    folder = Settings.read({}).manifests_folder
    assert (folder / "models" / "efficientnet_lite0").is_dir()


@pytest.mark.parametrize(
    ("text", "url"),
    [("", "https://huggingface.co"), ("off", ""), (" OFF ", ""), ("http://hub:1", "http://hub:1")],
)
def test_the_public_hub_is_the_default_and_can_be_turned_off(text: str, url: str) -> None:
    assert Settings.read({"MLSCOPE_HUB_URL": text}).hub_url == url


def test_what_is_neither_a_hub_nor_off_is_refused() -> None:
    with pytest.raises(InvalidSetting, match="https://… or http://…, or off"):
        Settings.read({"MLSCOPE_HUB_URL": "none"})
