"""Certificates of a cluster that other machines reach: an authority of its own, made once.

    keys/tls/authority.key   secret: whoever has it can pass for this cluster
    keys/tls/authority.pem   what clients trust
    keys/tls/server.key      secret: the key of broker and pages
    keys/tls/server.pem      their certificate, signed by the authority

The server's certificate is made anew, at the start of the cluster, when the address changes or half
of its life is over; clients go on, as they trust the authority. Imported only by a cluster that
listens for other machines.
"""

import datetime as dt
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID

from cli.cluster.errors import CertificateIncomplete
from cli.cluster.keys.secret_files import write_secret
from cli.cluster.ports import LOOPBACK
from mlscope.settings import Settings

_AUTHORITY_DAYS = 3650
_SERVER_DAYS = 397
"""The longest that browsers accept."""
_RENEW_BELOW = dt.timedelta(days=_SERVER_DAYS / 2)
"""A cluster that runs does not renew it: it should outlast half a year without a restart."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A server's certificate with its key, and the authority that its clients trust.

    `authority` is None where the authorities of the operating system are trusted.
    """

    certificate: Path
    key: Path
    authority: Path | None

    @classmethod
    def of(cls, environ: Mapping[str, str]) -> Self | None:
        """Return the user's own certificate that the environment names, if any.

        Raises CertificateIncomplete for a certificate without key or the other way round.
        """
        settings = Settings.read(environ)
        certificate, key = settings.tls_certificate_file, settings.tls_key_file
        if certificate is None and key is None:
            return None
        if certificate is None or key is None:
            raise CertificateIncomplete(certificate, key)
        authority = settings.tls_authority_file
        return cls(certificate.resolve(), key.resolve(), authority and authority.resolve())

    def environ(self) -> dict[str, str]:
        """Return the environment variable by which clients trust the authority."""
        return {"MLSCOPE_TLS_AUTHORITY_FILE": str(self.authority)} if self.authority else {}

    def server_environ(self) -> dict[str, str]:
        """Return the environment variables of a server that shows the certificate."""
        return {
            "MLSCOPE_TLS_CERTIFICATE_FILE": str(self.certificate),
            "MLSCOPE_TLS_KEY_FILE": str(self.key),
        }


def ensure_certificate(folder: Path, *addresses: str) -> Certificate:
    """Return a certificate for `addresses` and this machine's names, kept in `folder`.

    Authority and certificate are made where they are missing or no longer fit.
    """
    authority_file, authority_key_file = folder / "authority.pem", folder / "authority.key"
    files = Certificate(folder / "server.pem", folder / "server.key", authority_file)
    if not (authority_key_file.exists() and authority_file.exists()):
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name(f"mlscope authority of {socket.gethostname()}")
        _write_key(authority_key_file, key)
        is_authority = x509.BasicConstraints(ca=True, path_length=0)
        draft = _draft(name, name, key, _AUTHORITY_DAYS).add_extension(is_authority, critical=True)
        _sign(authority_file, draft, key)
        files.certificate.unlink(missing_ok=True)
    names = {*addresses, LOOPBACK, "localhost", socket.gethostname()}
    if not _fits(files, names):
        _make_server_certificate(files, authority_file, authority_key_file, names)
    return files


def _make_server_certificate(
    files: Certificate, authority_file: Path, authority_key_file: Path, names: set[str]
) -> None:
    """Make a new key, and a certificate for `names` that the authority signs."""
    authority = x509.load_pem_x509_certificate(authority_file.read_bytes())
    authority_key = serialization.load_pem_private_key(authority_key_file.read_bytes(), None)
    assert isinstance(authority_key, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"mlscope on {socket.gethostname()}")
    signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key.public_key())
    draft = _draft(subject, authority.subject, key, _SERVER_DAYS)
    for extension in (
        x509.SubjectAlternativeName(list(map(_alternative, sorted(names)))),
        x509.BasicConstraints(ca=False, path_length=None),
        # A broker shows it to the others too, as the client of its routes.
        x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]),
        signer,
    ):
        draft = draft.add_extension(extension, critical=False)
    _write_key(files.key, key)
    _sign(files.certificate, draft, authority_key)


def _fits(files: Certificate, names: set[str]) -> bool:
    """Tell whether the certificate is there, is for these names alone, and half its life left."""
    if not (files.certificate.exists() and files.key.exists()):
        return False
    certificate = x509.load_pem_x509_certificate(files.certificate.read_bytes())
    extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    is_fresh = certificate.not_valid_after_utc - dt.datetime.now(dt.UTC) > _RENEW_BELOW
    return is_fresh and {str(general.value) for general in extension.value} == names


def _draft(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    """Return a certificate to be signed, valid since a day ago: clocks of machines differ."""
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=days))
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _sign(path: Path, draft: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> None:
    """Sign a certificate and write it; everyone may read it."""
    signed = draft.sign(key, hashes.SHA256())
    write_secret(path, signed.public_bytes(serialization.Encoding.PEM).decode("ascii"))
    path.chmod(0o644)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    text = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    write_secret(path, text.decode("ascii"))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, text[:64])])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
