"""What a catalog in a database does, whichever it is. A subclass gives the fixture `url`, of one without tables."""

import multiprocessing
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor

import pytest
from sqlalchemy import select, update

from lakeport.errors import CatalogError, SharingError
from lakeport.server.catalog.admin import ShareAdmin
from lakeport.server.catalog.database import STATE, Database
from lakeport.server.catalog.index import Catalog, token_digest
from lakeport.server.catalog.model import CatalogContent, Recipient
from lakeport.server.catalog.recipient_admin import RecipientAdmin
from lakeport.server.catalog.rules import check_content
from lakeport.server.catalog.sql_source import SqlSource
from lakeport.server.catalog.watcher import CatalogWatcher

NOW = 1_800_000_000_000
HOUR = 3_600_000


def add_tables(url: str, worker: int) -> int:
    """Opens the catalog, which may be new, and adds tables to it; in a process of its own."""
    database = Database(url)
    for number in range(5):
        ShareAdmin(database).add_table("sales", f"s{number}", f"t{worker}", location=f"/data/{worker}/{number}")
    database.close()
    return worker


def open_new(url: str, _: int) -> bytes | None:
    """Opens a catalog that others open at the same time; its signing key."""
    source = SqlSource(url)
    key = source.signing_key()
    source.close()
    return key


def number_of_changes(database: Database) -> int:
    with database.reading() as connection:
        return connection.execute(select(STATE.c.generation)).scalar_one()


class DatabaseContract:
    @pytest.fixture
    def database(self, url: str) -> Iterator[Database]:
        database = Database(url)
        yield database
        database.close()

    @pytest.fixture
    def source(self, url: str) -> Iterator[SqlSource]:
        source = SqlSource(url)
        yield source
        source.close()

    @pytest.fixture
    def shares(self, database: Database) -> ShareAdmin:
        """One share with a schema of two tables."""
        shares = ShareAdmin(database)
        shares.add_share("Sales", comment="c", display_name="Sales!", properties={"k": "é"})
        shares.add_table("sales", "EU", "Orders", location="s3a://b/orders", storage={"region": "eu"})
        shares.add_table("SALES", "eu", "items", location="/data/items", history_shared=True, start_version=2**40)
        return shares

    @pytest.fixture
    def recipients(self, database: Database, shares: ShareAdmin) -> RecipientAdmin:
        return RecipientAdmin(database)

    def test_a_new_catalog_is_empty_and_has_a_key(self, source: SqlSource) -> None:
        assert source.load() == CatalogContent()
        key = source.signing_key()
        assert key is not None
        assert len(key) == 32

    def test_it_keeps_what_it_is_given(self, shares: ShareAdmin, source: SqlSource) -> None:
        content = source.load()
        check_content(content)
        [share] = content.shares
        assert (share.name, share.comment, share.display_name) == ("Sales", "c", "Sales!")
        assert share.properties == {"k": "é"}
        assert content.schemas == (("Sales", "EU"),)
        orders, items = sorted(content.tables, key=lambda table: table.name)
        assert (orders.share, orders.schema, orders.name) == ("Sales", "EU", "Orders")
        assert (orders.location, orders.storage) == ("s3://b/orders", {"region": "eu"})
        assert (items.history_shared, items.start_version, items.access_modes) == (True, 2**40, ("url",))
        assert not content.anonymous

    def test_every_change_has_a_generation_and_a_failed_one_has_none(
        self, shares: ShareAdmin, recipients: RecipientAdmin, source: SqlSource
    ) -> None:
        changes = [
            lambda: shares.update_share("sales", comment="d"),
            lambda: shares.add_schema("sales", "us"),
            lambda: shares.rename_schema("sales", "us", "usa"),
            lambda: shares.remove_schema("sales", "usa"),
            lambda: shares.update_table("sales", "eu", "orders", location="/x"),
            lambda: recipients.add("ann", NOW),
            lambda: recipients.grant("ann", "sales"),
            lambda: recipients.ungrant("ann", "sales"),
            lambda: recipients.update("ann", ip_allow_list=["10.0.0.1"]),
            lambda: recipients.rotate("ann", NOW),
            lambda: recipients.revoke("ann"),
            lambda: recipients.remove("ann"),
            lambda: shares.remove_table("sales", "eu", "orders"),
            lambda: shares.remove_share("sales", force=True),
        ]
        seen = {source.generation()}
        for number, change in enumerate(changes, 2):
            change()
            seen.add(source.generation())
            assert len(seen) == number
        with pytest.raises(CatalogError):
            shares.remove_share("sales")
        assert source.generation() in seen

    def test_what_breaks_the_rules_changes_nothing(
        self, shares: ShareAdmin, recipients: RecipientAdmin, source: SqlSource
    ) -> None:
        recipients.add("ann", NOW)
        before = source.load()
        for change in (
            lambda: shares.add_share("SALES"),
            lambda: shares.add_share("a/b"),
            lambda: shares.add_share("x\0y"),
            lambda: shares.add_share("x" * 256),
            lambda: shares.add_share("sales.eu"),  # the schema is called so
            lambda: shares.update_share("nothing", comment="x"),
            lambda: shares.update_share("sales", name="a b"),
            lambda: shares.add_schema("nothing", "x"),
            lambda: shares.add_schema("sales", "eu"),
            lambda: shares.add_schema("sales", "a.b"),
            lambda: shares.rename_schema("sales", "nothing", "x"),
            lambda: shares.add_table("sales", "eu", "ORDERS", location="/x"),
            lambda: shares.add_table("sales", "new", "a.b", location="/x"),
            lambda: shares.add_table("sales", "new", "t", location="ftp://x/y"),
            lambda: shares.add_table("sales", "new", "t", location="/x", access_modes=("x",)),
            lambda: shares.add_table("nothing", "new", "t", location="/x"),
            lambda: shares.update_table("sales", "eu", "orders", name="ITEMS"),
            lambda: shares.update_table("sales", "eu", "nothing", name="x"),
            lambda: shares.remove_table("sales", "eu", "nothing"),
            lambda: shares.remove_share("sales"),
            lambda: shares.remove_schema("sales", "eu"),
            lambda: recipients.add("ANN", NOW),
            lambda: recipients.add("", NOW),
            lambda: recipients.add("bob", NOW, ip_allow_list=["x"]),
            lambda: recipients.update("ann", ip_allow_list=["x"]),
            lambda: recipients.rotate("bob", NOW),
            lambda: recipients.revoke("bob"),
            lambda: recipients.remove("bob"),
            lambda: recipients.grant("bob", "sales"),
            lambda: recipients.grant("ann", "nothing"),
            lambda: recipients.grant("ann", "sales.eu.orders.more"),
            lambda: recipients.ungrant("ann", "sales"),
        ):
            with pytest.raises(CatalogError):
                change()
        assert source.load() == before

    def test_renaming_keeps_ids_and_grants(
        self, shares: ShareAdmin, recipients: RecipientAdmin, source: SqlSource
    ) -> None:
        recipients.add("ann", NOW)
        for target in ("sales", "sales.EU", "Sales.eu.orders"):
            recipients.grant("ann", target)
        ids = {table.id for table in source.load().tables}
        shares.update_share("sales", name="Trade")
        shares.rename_schema("trade", "eu", "Europe")
        shares.update_table("trade", "europe", "ORDERS", name="Bills")
        recipients.update("ann", new_name="Anne")
        content = source.load()
        assert {table.id for table in content.tables} == ids
        assert [recipient.name for recipient in content.recipients] == ["Anne"]
        assert content.recipients[0].grants == ("Trade", "Trade.Europe", "Trade.Europe.Bills")
        shares.update_share("trade", name="TRADE")  # the same name in other letters

    def test_a_removed_share_takes_its_tables_and_grants_with_it(
        self, shares: ShareAdmin, recipients: RecipientAdmin, source: SqlSource
    ) -> None:
        recipients.add("ann", NOW)
        for target in ("sales", "sales.eu", "sales.eu.orders", "*"):
            recipients.grant("ann", target)
        shares.remove_schema("sales", "eu", force=True)
        assert source.load().recipients[0].grants == ("*", "Sales")
        shares.remove_share("sales")
        content = source.load()
        assert (content.shares, content.schemas, content.tables) == ((), (), ())
        assert content.recipients[0].grants == ("*",)

    def test_a_grant_is_there_once_and_can_be_taken_back(self, recipients: RecipientAdmin, source: SqlSource) -> None:
        recipients.add("ann", NOW)
        for target in ("*", "*", "sales.eu.items", "SALES.EU.ITEMS"):
            recipients.grant("Ann", target)
        assert source.load().recipients[0].grants == ("*", "Sales.EU.items")
        recipients.ungrant("ann", "*")
        assert source.load().recipients[0].grants == ("Sales.EU.items",)

    def test_a_share_with_periods_in_its_name_can_be_granted(
        self, shares: ShareAdmin, recipients: RecipientAdmin, source: SqlSource
    ) -> None:
        shares.add_share("a.b")
        shares.add_table("a.b", "c", "d", location="/x")
        recipients.add("ann", NOW)
        for target in ("a.b", "a.b.c", "a.b.c.d"):
            recipients.grant("ann", target)
        assert source.load().recipients[0].grants == ("a.b", "a.b.c", "a.b.c.d")

    def test_only_the_digest_of_a_token_is_kept(self, recipients: RecipientAdmin, source: SqlSource) -> None:
        token = recipients.add("ann", NOW, expires=NOW + HOUR, ip_allow_list=["10.0.0.0/8"])
        assert len(token) >= 43
        [ann] = source.load().recipients
        assert [(kept.digest, kept.expires) for kept in ann.tokens] == [(token_digest(token), NOW + HOUR)]
        assert ann.ip_allow_list == ("10.0.0.0/8",)

    def test_rotated_tokens_overlap(self, recipients: RecipientAdmin, source: SqlSource) -> None:
        short = recipients.add("ann", NOW, expires=NOW + HOUR)
        long = recipients.rotate("ann", NOW, overlap=24 * HOUR)
        new = recipients.rotate("ann", NOW, overlap=2 * HOUR, expires=NOW + 9 * HOUR)

        def valid(at: int) -> list[str]:
            catalog = Catalog(source.load())
            return [token for token in (short, long, new) if catalog.authenticate(token, at) is not None]

        assert valid(NOW) == [short, long, new]
        assert valid(NOW + HOUR) == [long, new]
        assert valid(NOW + 2 * HOUR) == [new]
        assert valid(NOW + 9 * HOUR) == []
        recipients.rotate("ann", NOW + 5 * HOUR)
        assert len(source.load().recipients[0].tokens) == 2  # those that were over are forgotten

    def test_revoked_tokens_are_worth_nothing_at_once(self, recipients: RecipientAdmin, source: SqlSource) -> None:
        old = recipients.add("ann", NOW)
        recipients.revoke("ann")
        assert Catalog(source.load()).authenticate(old, NOW) is None
        new = recipients.rotate("ann", NOW)
        assert isinstance(Catalog(source.load()).authenticate(new, NOW), Recipient)

    def test_a_server_takes_changes_over(
        self, shares: ShareAdmin, recipients: RecipientAdmin, source: SqlSource
    ) -> None:
        watcher = CatalogWatcher(source)
        token = recipients.add("ann", NOW)
        recipients.grant("ann", "sales.eu.orders")
        assert watcher.catalog.authenticate(token, NOW) is None
        watcher.look()
        ann = watcher.catalog.authenticate(token, NOW)
        assert ann is not None
        assert watcher.catalog.view(ann).table("sales", "eu", "orders").name == "Orders"
        recipients.ungrant("ann", "sales.eu.orders")
        watcher.look()
        ann = watcher.catalog.authenticate(token, NOW)
        assert ann is not None
        with pytest.raises(SharingError):
            watcher.catalog.view(ann).table("sales", "eu", "orders")

    def test_servers_that_start_at_once_make_one_catalog(self, url: str) -> None:
        with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
            keys = set(pool.map(open_new, [url] * 6, range(6)))
        assert len(keys) == 1
        assert None not in keys

    def test_changes_of_several_processes_are_all_made(self, url: str, database: Database, source: SqlSource) -> None:
        ShareAdmin(database).add_share("sales")
        before = number_of_changes(database)
        with ProcessPoolExecutor(3, multiprocessing.get_context("spawn")) as pool:
            assert list(pool.map(add_tables, [url] * 4, range(4))) == [0, 1, 2, 3]
        content = source.load()
        check_content(content)
        assert (len(content.tables), len(content.schemas)) == (20, 5)
        assert number_of_changes(database) == before + 20

    def test_what_is_loaded_during_a_change_is_of_one_moment(
        self, shares: ShareAdmin, recipients: RecipientAdmin, source: SqlSource
    ) -> None:
        recipients.add("ann", NOW)
        done = False

        def change() -> None:
            for number in range(30):
                shares.add_table("sales", f"s{number}", "t", location="/x")
                recipients.grant("ann", f"sales.s{number}.t")
                shares.remove_schema("sales", f"s{number}", force=True)

        with ThreadPoolExecutor(1) as pool:
            changing = pool.submit(change)
            while not done:
                done = changing.done()
                check_content(source.load())  # a grant of what is not there would be refused
            changing.result()

    def test_a_catalog_of_a_later_release_is_refused(self, url: str, database: Database) -> None:
        with database.changing() as connection:
            connection.execute(update(STATE).values(schema_version=99))
        with pytest.raises(CatalogError, match="has version 99"):
            Database(url)
