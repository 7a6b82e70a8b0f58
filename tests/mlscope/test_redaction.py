"""No secret gets through, and what is none stays readable."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlscope.redaction import HIDDEN, is_secret_name, redact

_SEED = "SU" + "A" * 56


@pytest.mark.parametrize(
    ("text", "clean"),
    [
        ("postgresql://me:s3cret@host/db", f"postgresql://me:{HIDDEN}@host/db"),
        ("nats://a:b@one,nats://c:d@two", f"nats://a:{HIDDEN}@one,nats://c:{HIDDEN}@two"),
        ("postgresql://me@host/db", "postgresql://me@host/db"),
        (f"seed {_SEED}.", f"seed {HIDDEN}."),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {HIDDEN}"),
        ("host=h password=s3cret user=me", f"host=h password={HIDDEN} user=me"),
        ("password='a b \\' c' user=me", f"password={HIDDEN} user=me"),
        ("Cookie: mlscope_session=abc; x=1", f"Cookie: mlscope_session={HIDDEN}; x=1"),
        ("Cookie: mlscope_session_12ab=a.b;x=1", f"Cookie: mlscope_session_12ab={HIDDEN};x=1"),
        ("Authorization=Basic dTpwdw==,a=b", f"Authorization=Basic {HIDDEN},a=b"),
        ("/?login=abc.def", f"/?login={HIDDEN}"),
        ("Authorization: Basic dTpwdw==", f"Authorization: Basic {HIDDEN}"),
        ("api-key=abc,x=1", f"api-key={HIDDEN},x=1"),
        ("AccountName=a;AccountKey=b=;Suffix=c", f"AccountName=a;AccountKey={HIDDEN};Suffix=c"),
        ("a token of thanks", "a token of thanks"),
        ("basic arithmetic, and key=value", "basic arithmetic, and key=value"),
        ("monkey=1 keyboard=us", "monkey=1 keyboard=us"),
    ],
)
def test_secrets_are_hidden_and_the_rest_stays(text: str, clean: str) -> None:
    assert redact(text) == clean


def test_a_long_text_takes_no_longer_than_its_length() -> None:
    """The scheduler logs what an agent answers, up to 8 MB: its square would take half an hour."""
    assert redact("a." * 2_000_000) == "a." * 2_000_000


@given(st.text(max_size=60))
def test_cleaning_again_changes_nothing(text: str) -> None:
    assert redact(redact(text)) == redact(text)


@given(st.from_regex(r"\A[a-z0-9]{8,20}\Z"), st.sampled_from(["nats", "postgresql", "https"]))
def test_no_password_of_an_address_gets_through(password: str, scheme: str) -> None:
    assert password not in redact(f"to {scheme}://someone:{password}@example.org:1/x")


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "DATABASE_PASSWORD",
        "PGPASSWORD",
        "SMTP_PASS",
        "nats_seed",
        "Set-Cookie",
        "token",
        "hub_token_value",
        "AWS_SECRET_ACCESS_KEY",
        "SSHPASS",
        "SENTRY_DSN",
        "OTEL_EXPORTER_OTLP_HEADERS",
        "PRIVATEKEY",
    ],
)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name",
    [
        "nats_seed_file",
        "token_path",
        "user",
        "port",
        "PWD",
        "MAX_TOKENS",
        "PYTHONHASHSEED",
        "bypass",
    ],
)
def test_a_name_of_a_file_or_of_what_is_public_is_no_secret(name: str) -> None:
    assert not is_secret_name(name)
