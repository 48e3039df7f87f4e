"""Tokens that are signed with a private key (RFC 7515, RFC 7518), by the package `cryptography`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec

from lakeport.errors import AuthenticationError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.hashes import HashAlgorithm

_HASHES = {"256": "SHA256", "384": "SHA384", "512": "SHA512"}


def sign_jwt(claims: dict[str, Any], pem: bytes, algorithm: str, key_id: str | None) -> str:
    """The claims, signed with the private key in PEM by RS, PS or ES with 256, 384 or 512 bits.

    Raises `AuthenticationError` if the key, or the algorithm, cannot be used; the key is never in its message."""
    header = {"alg": algorithm, "typ": "JWT"} | ({"kid": key_id} if key_id else {})
    signed = b".".join(_encode(msgspec.json.encode(part)) for part in (header, claims))
    return b".".join((signed, _encode(_sign(signed, pem, algorithm)))).decode()


def _encode(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")


def _sign(content: bytes, pem: bytes, algorithm: str) -> bytes:
    try:
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
    except ImportError:
        raise _unusable("the profile has a private key: pip install cryptography to use it") from None
    name = _HASHES.get(algorithm[2:])
    if name is None or algorithm[:2] not in ("RS", "PS", "ES"):
        raise _unusable(f"the profile names the algorithm {algorithm[:20]!r}; use RS, PS or ES with 256, 384 or 512")
    digest: HashAlgorithm = getattr(hashes, name)()
    try:
        key = serialization.load_pem_private_key(pem, password=None)
    except (ValueError, TypeError):
        raise _unusable("the profile's private key is not one in PEM without a password") from None
    match key:
        case rsa.RSAPrivateKey() if algorithm[:2] in ("RS", "PS"):
            return _sign_rsa(key, content, digest, algorithm[:2])
        case ec.EllipticCurvePrivateKey() if algorithm[:2] == "ES":
            return _sign_ec(key, content, digest)
    raise _unusable(f"the profile's private key is not one for the algorithm {algorithm}")


def _sign_rsa(key: Any, content: bytes, digest: HashAlgorithm, family: str) -> bytes:
    from cryptography.hazmat.primitives.asymmetric import padding

    if family == "RS":
        return bytes(key.sign(content, padding.PKCS1v15(), digest))
    # RFC 7518, 3.5: the salt is as long as the hash.
    return bytes(key.sign(content, padding.PSS(padding.MGF1(digest), digest.digest_size), digest))


def _sign_ec(key: Any, content: bytes, digest: HashAlgorithm) -> bytes:
    """RFC 7518, 3.4: the two numbers one after the other, each as long as the curve's."""
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature

    r, s = decode_dss_signature(key.sign(content, ec.ECDSA(digest)))
    size = (key.curve.key_size + 7) // 8
    return bytes(r.to_bytes(size, "big") + s.to_bytes(size, "big"))


def _unusable(message: str) -> AuthenticationError:
    return AuthenticationError(message, status=0, code="NO_PRIVATE_KEY")
