"""Who has a token, and what it may see."""

import pytest

from lakeport.errors import SharingError
from lakeport.server.catalog.index import Catalog, token_digest
from lakeport.server.catalog.model import BearerToken, CatalogContent, Recipient, Share, Table

NAMES = ["Sales.eu.orders", "Sales.eu.Customers", "Sales.us.orders", "b.c.d.t", "hr.people.staff"]
NOW = 1_000_000


def table(name: str) -> Table:
    share, schema, own = name.rsplit(".", 2)
    return Table(id=name, share=share, schema=schema, name=own, location=f"/data/{name}")


def content(*recipients: Recipient, anonymous: bool = False) -> CatalogContent:
    tables = tuple(table(name) for name in NAMES)
    names = {t.share for t in tables} | {"Empty"}
    schemas = {(t.share, t.schema) for t in tables} | {("Sales", "Archive")}
    shares = tuple(Share(id=name, name=name) for name in names)
    return CatalogContent(
        shares=shares, schemas=tuple(schemas), tables=tables, recipients=recipients, anonymous=anonymous
    )


def recipient(*grants: str, name: str = "ann", **tokens: int | None) -> Recipient:
    kept = tuple(BearerToken(digest=token_digest(token), expires=expires) for token, expires in tokens.items())
    return Recipient(id=name, name=name, tokens=kept, grants=grants)


def test_a_token_is_its_recipients() -> None:
    ann, bob = recipient(a1=None, a2=NOW + 1), recipient(name="bob", b1=None)
    catalog = Catalog(content(ann, bob))
    assert [catalog.authenticate(token, NOW) for token in ("a1", "a2", "b1")] == [ann, ann, bob]


@pytest.mark.parametrize("token", ["", "A1", "a1 ", token_digest("a1"), "\udcff", "é" * 1000])
def test_a_token_that_nobody_has_is_nobodys(token: str) -> None:
    assert Catalog(content(recipient(a1=None))).authenticate(token, NOW) is None


def test_a_token_that_has_expired_is_nobodys() -> None:
    catalog = Catalog(content(recipient(a1=NOW)))
    assert catalog.authenticate("a1", NOW - 1) is not None
    assert catalog.authenticate("a1", NOW) is None


def test_requests_without_a_token_are_somebodys_only_if_the_catalog_says_so() -> None:
    assert Catalog(content()).anonymous is None
    anonymous = Catalog(content(anonymous=True)).anonymous
    assert anonymous is not None
    assert len(Catalog(content(anonymous=True)).view(anonymous).shares()) == 4


def test_everything_is_listed_by_lower_cased_names() -> None:
    view = Catalog(content()).view(recipient("*"))
    assert [share.name for share in view.shares()] == ["b.c", "Empty", "hr", "Sales"]
    assert list(view.schemas("sales")) == ["Archive", "eu", "us"]
    assert [t.name for t in view.tables("SALES", "EU")] == ["Customers", "orders"]
    assert [t.id for t in view.all_tables("sales")] == ["Sales.eu.Customers", "Sales.eu.orders", "Sales.us.orders"]
    assert view.tables("sales", "archive") == []
    assert view.schemas("empty") == []


def test_names_are_found_in_any_case() -> None:
    view = Catalog(content()).view(recipient("*"))
    assert view.share("sALES").name == "Sales"
    assert view.table("SALES", "Eu", "customers").id == "Sales.eu.Customers"
    assert view.table("B.C", "D", "T").id == "b.c.d.t"


@pytest.mark.parametrize(
    ("grants", "seen"),
    [
        ((), set()),
        (("SALES",), {"Sales.eu.orders", "Sales.eu.Customers", "Sales.us.orders"}),
        (("sales.EU",), {"Sales.eu.orders", "Sales.eu.Customers"}),
        (("sales.eu.ORDERS", "hr"), {"Sales.eu.orders", "hr.people.staff"}),
        (("b.c",), {"b.c.d.t"}),
        (("b.c.d",), {"b.c.d.t"}),
        (("b.c.d.t",), {"b.c.d.t"}),
        (("b", "sal", "sales.e", "sales.eu.order", "eu", ""), set()),
        (("sales.archive",), set()),
        (("hr", "*"), set(NAMES)),
    ],
)
def test_a_recipient_sees_what_it_is_granted_and_nothing_else(grants: tuple[str, ...], seen: set[str]) -> None:
    view = Catalog(content()).view(recipient(*grants))
    assert {t.id for share in view.shares() for t in view.all_tables(share.name)} == seen
    for name in NAMES:
        share, schema, own = name.rsplit(".", 2)
        if name in seen:
            assert view.table(share, schema, own).id == name
        else:
            with pytest.raises(SharingError) as caught:
                view.table(share, schema, own)
            assert (caught.value.status, caught.value.code) == (404, "RESOURCE_DOES_NOT_EXIST")


def test_a_grant_of_a_table_shows_only_its_schema_and_share() -> None:
    view = Catalog(content()).view(recipient("Sales.eu.orders"))
    assert [share.name for share in view.shares()] == ["Sales"]
    assert list(view.schemas("sales")) == ["eu"]
    for ask in (lambda: view.tables("sales", "us"), lambda: view.schemas("hr"), lambda: view.share("hr")):
        with pytest.raises(SharingError):
            ask()


def test_a_grant_of_an_empty_schema_or_share_shows_it() -> None:
    view = Catalog(content()).view(recipient("Sales.Archive", "Empty"))
    assert [share.name for share in view.shares()] == ["Empty", "Sales"]
    assert list(view.schemas("Sales")) == ["Archive"]


def test_what_is_not_granted_and_what_does_not_exist_are_told_in_the_same_words() -> None:
    def told(grant: str, names: tuple[str, ...]) -> str:
        view = Catalog(content()).view(recipient(grant))
        with pytest.raises(SharingError) as caught:
            {1: view.share, 2: view.tables, 3: view.table}[len(names)](*names)  # type: ignore[operator]
        return str(caught.value)

    for names, missing in (
        (("hr",), ("xx",)),
        (("hr", "people"), ("xx", "people")),
        (("Sales", "us"), ("Sales", "xx")),
    ):
        assert told("Sales.eu", names) == told("Sales.eu", missing).replace("xx", names[missing.index("xx")])
    there, gone = told("Sales.eu.orders", ("Sales", "eu", "Customers")), told("Sales.eu.orders", ("Sales", "eu", "xx"))
    assert there == gone.replace("xx", "Customers")


def test_tables_are_found_by_their_ids() -> None:
    catalog = Catalog(content())
    found = catalog.table_by_id("hr.people.staff")
    assert found is not None
    assert found.name == "staff"
    assert catalog.table_by_id("HR.people.staff") is None
