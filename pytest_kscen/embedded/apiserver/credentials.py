"""TLS certificates, bearer token and kubeconfig of an HTTPS port; created anew for each run.

The only module that draws from the system's entropy.
"""

from __future__ import annotations

import base64
import datetime
import ipaddress
import os
import secrets  # noqa: TID251  # keys and tokens come from the system's entropy, here alone
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pytest_kscen.clock import WallClock

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")
ADDRESSES = ("127.0.0.1", "::1")
DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Keys:
    """Credentials of one port: CA certificate, server certificate with its key, and a bearer token.

    All are PEM; the server certificate is valid for 30 days and for localhost and
    kubernetes.default.
    """

    authority: bytes
    certificate: bytes
    key: bytes
    token: str

    def context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory(prefix="kscen-") as folder:  # OpenSSL reads files only
            path = Path(folder, "server.pem")
            path.touch(0o600)
            path.write_bytes(self.key + self.certificate)
            context.load_cert_chain(path)
        return context


def make_keys() -> Keys:
    authority, server = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    root = _certificate("kscen", authority, "kscen", authority)
    leaf = _certificate("kube-apiserver", server, "kscen", authority)
    key = server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Keys(_pem(root), _pem(leaf), key, secrets.token_urlsafe(32))


def _certificate(
    subject: str, key: EllipticCurvePrivateKey, issuer: str, signer: EllipticCurvePrivateKey
) -> x509.Certificate:
    now = datetime.datetime.fromtimestamp(WallClock().now(), datetime.UTC)
    is_authority = key is signer
    builder = (
        x509.CertificateBuilder(
            _name(issuer), _name(subject), key.public_key(), x509.random_serial_number()
        )
        .not_valid_before(now - DAY)
        .not_valid_after(now + 30 * DAY)
        .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                key_cert_sign=is_authority,
                crl_sign=is_authority,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    if not is_authority:
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ADDRESSES]
        names = [x509.DNSName(name) for name in NAMES]
        builder = builder.add_extension(
            x509.SubjectAlternativeName([*names, *addresses]), critical=False
        )
        builder = builder.add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False
        )
    return builder.sign(signer, hashes.SHA256())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def write_kubeconfig(path: Path, url: str, keys: Keys, name: str = "kscen") -> None:
    """Write a kubeconfig that is readable by its owner only (mode 0600), as it holds the token."""
    authority = base64.b64encode(keys.authority).decode()
    content = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {"name": name, "cluster": {"server": url, "certificate-authority-data": authority}}
        ],
        "users": [{"name": name, "user": {"token": keys.token}}],
        "contexts": [
            {"name": name, "context": {"cluster": name, "user": name, "namespace": "default"}}
        ],
        "current-context": name,
    }
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        yaml.safe_dump(content, file, sort_keys=False)
