"""The settings of a server: the reference server's file loads unchanged, ours adds to it, mistakes are named."""

import logging
from pathlib import Path

import pytest

from lakeport.errors import CatalogError
from lakeport.server.catalog.sql_source import SqlSource
from lakeport.server.catalog.yaml_source import YamlSource
from lakeport.server.config import ServerConfig, load_config, open_catalog, signing_key

REFERENCE = """
# every key that the reference server knows, each with another value than its default
version: 1
shares:
- name: "share1"
  schemas:
  - name: "schema1"
    tables:
    - name: "table1"
      location: "s3a://bucket/the/table"
      id: "00000000-0000-0000-0000-000000000000"
      historyShared: true
      startVersion: 3
authorization:
  bearerToken: "secret"
ssl:
  selfSigned: false
  certificateFile: cert.pem
  certificateKeyFile: key.pem
  certificatePasswordFile: password.txt
host: "0.0.0.0"
port: 8080
endpoint: "/sharing"
preSignedUrlTimeoutSeconds: 900
temporaryCredentialValiditySeconds: 1800
deltaTableCacheSize: 20
stalenessAcceptable: true
evaluatePredicateHints: true
evaluateJsonPredicateHints: false
evaluateJsonPredicateHintsV2: false
requestTimeoutSeconds: 0
queryTablePageSizeLimit: 500
queryTablePageTokenTtlMs: 1000
refreshTokenTtlMs: 2000
"""


def load(tmp_path: Path, text: str) -> ServerConfig:
    path = tmp_path / "server.yaml"
    path.write_text(text, encoding="utf-8")
    return load_config(path)


def test_every_key_of_the_reference_server_is_known(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    config = load(tmp_path, REFERENCE)
    assert (config.host, config.port, config.endpoint) == ("0.0.0.0", 8080, "/sharing")
    assert config.pre_signed_url_timeout_seconds == 900
    assert config.temporary_credential_validity_seconds == 1800
    assert config.delta_table_cache_size == 20
    assert config.staleness_acceptable
    assert config.evaluate_predicate_hints
    assert not config.evaluate_json_predicate_hints
    assert not config.evaluate_json_predicate_hints_v2
    assert config.request_timeout_seconds == 0
    assert config.query_table_page_size_limit == 500
    assert config.query_table_page_token_ttl_ms == 1000
    assert config.refresh_token_ttl_ms == 2000
    assert config.ssl is not None
    assert config.ssl.certificate_file == "cert.pem"
    assert config.ssl.certificate_key_file == "key.pem"
    assert config.ssl.certificate_password_file == "password.txt"
    assert caplog.records == []


def test_the_defaults_are_those_of_the_reference_server(tmp_path: Path) -> None:
    config = load(tmp_path, "version: 1")
    assert (config.host, config.port, config.endpoint) == ("localhost", 80, "/delta-sharing")
    assert (config.pre_signed_url_timeout_seconds, config.temporary_credential_validity_seconds) == (3600, 3600)
    assert (config.delta_table_cache_size, config.staleness_acceptable) == (10, False)
    assert (config.evaluate_predicate_hints, config.evaluate_json_predicate_hints) == (False, True)
    assert (config.evaluate_json_predicate_hints_v2, config.request_timeout_seconds) == (True, 30)
    assert config.query_table_page_size_limit == 10_000
    assert config.query_table_page_token_ttl_ms == 259_200_000
    assert config.refresh_token_ttl_ms == 3_600_000
    assert config.ssl is None


def test_what_the_reference_server_does_not_have_is_off_by_default(tmp_path: Path) -> None:
    config = load(tmp_path, "version: 1")
    assert (config.rate_limit, config.audit_log, config.cors_allow_origins) == (0, None, ())
    assert (config.max_request_bytes, config.metrics, config.log_format) == (1 << 20, True, "text")
    assert (config.trusted_proxies, config.temporary_credentials, config.storage) == ((), {}, {})


def test_mappings_are_kept_as_they_are(tmp_path: Path) -> None:
    config = load(
        tmp_path, "version: 1\ntemporaryCredentials: {aws: {roleArn: 'arn:x', region: null}}\nstorage: {region: 1}"
    )
    assert config.temporary_credentials == {"aws": {"roleArn": "arn:x"}}
    assert config.storage == {"region": "1"}


def test_keys_that_are_not_known_are_named_in_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = "version: 1\ncolour: blue\nshares:\n- name: a\n  schemas:\n  - {name: b, nmae: c}\nssl: null\n"
    assert load(tmp_path, text).shares[0].name == "a"
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == 2
    assert "unknown key colour" in told[0]
    assert "unknown key shares[0].schemas[0].nmae" in told[1]


def test_a_key_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CatalogError, match="duplicate key port at line 4"):
        load(tmp_path, "version: 1\nport: 1\nshares: []\nport: 2")


def test_anchors_and_merges_are_followed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    shared = "{name: a, schemas: [{name: s, tables: [&t {name: t, location: /t}, {<<: *t, name: u}]}]}"
    [_, second] = load(tmp_path, f"version: 1\nshares: [{shared}]").shares[0].schemas[0].tables
    assert (second.name, second.location) == ("u", "/t")
    assert caplog.records == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{}", "version is missing"),
        ("version: 2", "version is '2'"),
        ("version: 0", "version is '0'"),
        ("version: 1\nport: eighty", "port: expected `int`"),
        ("version: 1\nport: 70000", "port: expected `int` <= 65535"),
        ("version: 1\nstalenessAcceptable: maybe", "stalenessAcceptable: expected `bool`"),
        ("version: 1\nlogFormat: xml", "logFormat: invalid enum value 'xml'"),
        ("version: 1\npublicUrl: example.com", "publicUrl must be a URL"),
        ("version: 1\nqueryTablePageSizeLimit: 0", "queryTablePageSizeLimit: expected `int` >= 1"),
        ("version: 1\nshares: [{name: a, schemas: [{tables: []}]}]", "shares[0].schemas[0]: object missing required"),
        ("version: 1\nshares: all", "shares: expected `array`"),
        ("version: 1\nauthorization: {}", "authorization: object missing required field `bearerToken`"),
        ("version: 1\nssl: {certificateFile: x}", "ssl.certificateKeyFile is missing"),
        ("version: 1\nssl: {certificateKeyFile: x}", "ssl.certificateFile is missing"),
        ("version: 1\nssl: {selfSigned: true}", "ssl.selfSigned: this server does not create certificates"),
        ("version: 1\ntrustedProxies: [nowhere]", "trustedProxies: 'nowhere' is neither an address nor a network"),
        ("version: 1\ncatalog: 'sqlite:///x.db'\nshares: [{name: a}]", "catalog names a database"),
        ("version: [1", "is not valid YAML"),
        ("- 1", "must be a mapping"),
        ("", "must be a mapping"),
        ("version: 1\nsigningKey: ${LAKEPORT_NOT_SET}", "signingKey: the environment variable LAKEPORT_NOT_SET is not"),
    ],
)
def test_a_mistake_is_told_with_its_key(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(CatalogError) as caught:
        load(tmp_path, text)
    assert message in str(caught.value)
    assert "server.yaml" in str(caught.value)


def test_a_file_that_is_not_text_is_told(tmp_path: Path) -> None:
    (tmp_path / "server.yaml").write_bytes(b"version: \xff")
    with pytest.raises(CatalogError, match="not a UTF-8 text file"):
        load_config(tmp_path / "server.yaml")


def test_secrets_are_not_in_messages_or_in_texts_of_the_settings(tmp_path: Path) -> None:
    with pytest.raises(CatalogError) as caught:
        load(tmp_path, "version: 1\nsigningKey: {hunter2: [hunter2]}\nport: hunter2")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(CatalogError) as caught:
        load(tmp_path, "version: 1\nsigningKey: 'hunter2\n\tx: [")
    assert "hunter2" not in str(caught.value)
    config = load(tmp_path, "version: 1\nsigningKey: hunter2hunter2hunter2\nauthorization: {bearerToken: hunter2}")
    assert "hunter2" not in repr(config) + repr(config.authorization)


def test_variables_come_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEPORT_TEST_TOKEN", "a${b}")
    config = load(tmp_path, "version: 1\nauthorization: {bearerToken: 'x-${LAKEPORT_TEST_TOKEN}-y'}")
    assert config.authorization is not None
    assert config.authorization.bearer_token == "x-a${b}-y"


@pytest.mark.parametrize(
    ("given", "endpoint"), [("/a/b/", "/a/b"), ("a", "/a"), ("/", ""), ("''", ""), ("/delta-sharing", "/delta-sharing")]
)
def test_an_endpoint_begins_with_a_slash_and_does_not_end_with_one(tmp_path: Path, given: str, endpoint: str) -> None:
    assert load(tmp_path, f"version: 1\nendpoint: {given}").endpoint == endpoint


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", "http://localhost/delta-sharing"),
        ("port: 8080", "http://localhost:8080/delta-sharing"),
        ("{host: '::1', port: 443, ssl: {certificateFile: a, certificateKeyFile: b}}", "https://[::1]/delta-sharing"),
        ("publicUrl: https://example.com/", "https://example.com/delta-sharing"),
    ],
)
def test_the_settings_tell_what_recipients_reach_the_server_by(tmp_path: Path, text: str, url: str) -> None:
    text = text.removeprefix("{").removesuffix("}") if text.startswith("{") else text
    assert load(tmp_path, "{version: 1" + (f", {text}" if text else "") + "}").url == url


@pytest.mark.parametrize("seconds", [0, -5])
def test_credentials_without_a_validity_get_the_reference_servers_hour(tmp_path: Path, seconds: int) -> None:
    config = load(tmp_path, f"version: 1\ntemporaryCredentialValiditySeconds: {seconds}")
    assert config.temporary_credential_validity_seconds == 3600


def test_the_catalog_is_the_file_or_the_database(tmp_path: Path) -> None:
    assert isinstance(open_catalog(load(tmp_path, "version: 1")), YamlSource)
    source = open_catalog(load(tmp_path, f"version: 1\ncatalog: sqlite:///{tmp_path}/c.db"))
    assert isinstance(source, SqlSource)
    source.close()
    with pytest.raises(CatalogError, match="nothing to share"):
        open_catalog(ServerConfig())


def test_the_signing_key_comes_from_the_settings_then_the_environment_then_the_catalog(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("LAKEPORT_SIGNING_KEY", raising=False)
    source = SqlSource(f"sqlite:///{tmp_path}/c.db")
    kept = signing_key(ServerConfig(), source)
    assert len(kept) == 32
    assert signing_key(ServerConfig(), source) == kept
    monkeypatch.setenv("LAKEPORT_SIGNING_KEY", "of the environment")
    assert signing_key(ServerConfig(), source) == b"of the environment"
    (tmp_path / "key").write_text("of a file, in one line\n")
    assert signing_key(ServerConfig(signing_key_file=str(tmp_path / "key")), source) == b"of a file, in one line"
    assert signing_key(ServerConfig(signing_key="of the settings file"), source) == b"of the settings file"
    with pytest.raises(CatalogError, match="too short"):
        signing_key(ServerConfig(signing_key="short"), source)
    with pytest.raises(CatalogError, match=r"signingKeyFile cannot be read: .*nowhere"):
        signing_key(ServerConfig(signing_key_file=str(tmp_path / "nowhere")), source)
    source.close()


def test_without_any_key_one_is_made_for_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.delenv("LAKEPORT_SIGNING_KEY", raising=False)
    config = load(tmp_path, "version: 1")
    with caplog.at_level(logging.WARNING):
        first, second = (signing_key(config, open_catalog(config)) for _ in range(2))
    assert first != second
    assert "no signing key: URLs" in caplog.text


def test_limits_of_clients_are_settings(tmp_path: Path) -> None:
    path = tmp_path / "server.yaml"
    path.write_text("version: 1\nlimits: {headBytes: 4096, headerCount: 20, headSeconds: 1.5}")
    limits = load_config(path).limits
    assert (limits.head_bytes, limits.header_count, limits.head_seconds) == (4096, 20, 1.5)
    assert limits.body_seconds == 30
    path.write_text("version: 1\nlimits: {headerCount: 0}")
    with pytest.raises(CatalogError, match=r"limits\.headerCount"):
        load_config(path)
