"""The certificates of a cluster that other machines reach."""

import datetime as dt
import socket
import ssl
import stat
import threading
from pathlib import Path

import pytest
from cryptography import x509

from cli.cluster.errors import CertificateIncomplete
from cli.cluster.keys import certificates
from cli.cluster.keys.certificates import Certificate, ensure_certificate
from mlscope.bus.nats.dialing import trust


def greeted(made: Certificate, name: str, authority: Path | None) -> bytes:
    """Return what a client that trusts `authority` reads from a server called `name`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    near, far = socket.socketpair()

    def serve() -> None:
        try:
            with context.wrap_socket(far, server_side=True) as connection:
                connection.sendall(b"hello")
        except OSError:
            far.close()

    server = threading.Thread(target=serve)
    server.start()
    try:
        with near, trust(authority).wrap_socket(near, server_hostname=name) as connection:
            return connection.recv(100)
    finally:
        server.join()


@pytest.mark.parametrize("name", ["bench.example", "127.0.0.1", "localhost"])
def test_a_client_that_trusts_the_authority_is_served(tmp_path: Path, name: str) -> None:
    made = ensure_certificate(tmp_path, "bench.example")
    assert greeted(made, name, made.authority) == b"hello"


def test_another_name_and_another_authority_are_refused(tmp_path: Path) -> None:
    made = ensure_certificate(tmp_path / "one", "bench.example")
    other = ensure_certificate(tmp_path / "other", "bench.example")
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        greeted(made, "elsewhere.example", made.authority)
    for authority in (other.authority, None):
        with pytest.raises(ssl.SSLCertVerificationError):
            greeted(made, "bench.example", authority)


def test_keys_are_secret_and_a_restart_changes_nothing(tmp_path: Path) -> None:
    made = ensure_certificate(tmp_path, "192.0.2.7")
    texts = {path: path.read_bytes() for path in tmp_path.iterdir()}
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in texts}
    assert modes == {
        "authority.key": 0o600,
        "authority.pem": 0o644,
        "server.key": 0o600,
        "server.pem": 0o644,
    }
    assert ensure_certificate(tmp_path, "192.0.2.7") == made
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == texts


def test_a_new_address_and_a_near_end_renew_the_certificate_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = ensure_certificate(tmp_path, "192.0.2.7")
    authority, first = made.authority, made.certificate.read_bytes()
    assert authority is not None
    trusted = authority.read_bytes()
    monkeypatch.setattr(certificates, "_SERVER_DAYS", 190)
    ensure_certificate(tmp_path, "192.0.2.8")
    short = made.certificate.read_bytes()
    monkeypatch.undo()
    ensure_certificate(tmp_path, "192.0.2.8")
    renewed = made.certificate.read_bytes()
    assert len({first, short, renewed}) == 3
    assert authority.read_bytes() == trusted
    left = x509.load_pem_x509_certificate(renewed).not_valid_after_utc - dt.datetime.now(dt.UTC)
    assert left > dt.timedelta(days=390)


def test_the_user_s_own_certificate_needs_its_key(tmp_path: Path) -> None:
    both = {
        "MLSCOPE_TLS_CERTIFICATE_FILE": str(tmp_path / "c.pem"),
        "MLSCOPE_TLS_KEY_FILE": str(tmp_path / "c.key"),
    }
    assert Certificate.of({}) is None
    own = Certificate.of(both)
    assert own == Certificate(tmp_path / "c.pem", tmp_path / "c.key", None)
    for name in both:
        with pytest.raises(CertificateIncomplete, match="set both"):
            Certificate.of({name: both[name]})
