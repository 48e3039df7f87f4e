"""Names, by the section of that name in the protocol."""

import pytest

from lakeport.sharing.names import Kind, TableUrl, check_name, parse_table_url

KINDS: list[Kind] = ["share", "schema", "table"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["a", "Vaccine_Share-1", "größe", "x" * 255, "a#b", "a%20b"])
def test_a_name_may_have_most_characters(kind: Kind, name: str) -> None:
    check_name(kind, name)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "cannot be empty"),
        ("x" * 256, "at most 255 characters"),
        ("a b", "a space"),
        ("a/b", "a slash"),
        ("a\x00", "control character"),
        ("a\x1f", "control character"),
        ("a\n", "control character"),
        ("a\x7f", "control character"),
    ],
)
def test_a_name_that_cannot_be_is_refused_with_the_reason(kind: Kind, name: str, reason: str) -> None:
    with pytest.raises(ValueError, match=f"the name of a {kind} .*{reason}"):
        check_name(kind, name)


def test_only_a_share_may_have_a_period() -> None:
    check_name("share", "a.b")
    for kind in KINDS[1:]:
        with pytest.raises(ValueError, match="a period"):
            check_name(kind, "a.b")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("config.share#sales.eu.orders", TableUrl("config.share", "sales", "eu", "orders")),
        ("/a#b/c.share#s.t.u", TableUrl("/a#b/c.share", "s", "t", "u")),
        ("s3://bucket/c.share#my.share.t.u", TableUrl("s3://bucket/c.share", "my.share", "t", "u")),
    ],
)
def test_a_table_is_written_after_its_profile(text: str, url: TableUrl) -> None:
    assert parse_table_url(text) == url


@pytest.mark.parametrize("text", ["", "config.share", "#a.b.c", "c#a.b", "c#a..c", "c#.b.c", "c#a.b.", "c#a.b.c d"])
def test_anything_else_is_no_table(text: str) -> None:
    with pytest.raises(ValueError, match="is not a shared table"):
        parse_table_url(text)
