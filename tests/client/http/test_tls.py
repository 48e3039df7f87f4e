"""Connections that are encrypted: whose certificate is trusted, and what happens to one that is not."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from lakeport.errors import SharingError
from lakeport.testing.http import Steps, reply, scripted
from tests.client.timing import Sleeps, pool


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """The files of a certificate for 127.0.0.1 that has signed itself, and of its key."""
    root = tmp_path_factory.mktemp("tls")
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    (root / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (root / "key.pem").write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    return str(root / "cert.pem"), str(root / "key.pem")


def test_a_certificate_of_ones_own_authority_is_trusted_if_it_is_given(certificate: tuple[str, str]) -> None:
    with scripted(lambda asked: reply(b"secret"), certificate) as server, pool(ca_file=certificate[0]) as http:
        assert http.receive("GET", server.url, lambda answer: answer.read()) == b"secret"


def test_a_certificate_that_is_not_trusted_is_told_at_once(certificate: tuple[str, str]) -> None:
    sleeps = Sleeps()
    with scripted(lambda asked: reply(b"secret"), certificate) as server, pool(sleeps) as http:
        with pytest.raises(
            SharingError, match=r"certificate of 127\.0\.0\.1.*not trusted.*pass the certificate"
        ) as failed:
            http.request("GET", server.url)
        assert (server.asked, sleeps.seconds) == ([], [])
    assert failed.value.code == "UNTRUSTED_CERTIFICATE"


def test_certificates_that_are_not_there_are_told(tmp_path: Path) -> None:
    (tmp_path / "empty.pem").write_text("nothing")
    for name in ("missing.pem", "empty.pem"):
        with pool(ca_file=str(tmp_path / name)) as http, pytest.raises(ValueError, match=name):
            http.request("GET", "https://127.0.0.1:1/")


@pytest.mark.parametrize("answer", [reply(b"", 302, {"location": "http://127.0.0.1:1/"})])
def test_a_redirect_does_not_lead_out_of_the_encryption(certificate: tuple[str, str], answer: Steps) -> None:
    with scripted(lambda asked: answer, certificate) as server, pool(ca_file=certificate[0]) as http:
        with pytest.raises(SharingError, match="unencrypted"):
            http.request("GET", server.url, headers={"authorization": "Bearer t"})
        assert len(server.asked) == 1
