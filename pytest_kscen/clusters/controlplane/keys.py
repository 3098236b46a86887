"""What else a control plane needs of the system's entropy: a token for each who comes, and the key that signs service accounts."""

from __future__ import annotations

import secrets  # noqa: TID251  # keys belong to no seed and stand in no journal

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec


def token() -> str:
    return secrets.token_urlsafe(32)


def signing_key() -> bytes:
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
    )
