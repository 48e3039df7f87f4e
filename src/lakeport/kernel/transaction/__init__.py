"""Transactions: staging, conflict detection and commit.

May import `snapshot`, `write` and all below them.
"""

from lakeport.kernel.transaction.commit import Committed, Committer, StagedActions
from lakeport.kernel.transaction.conflicts import Reads
from lakeport.kernel.transaction.parked import ParkedTransaction, park
from lakeport.kernel.transaction.transaction import Transaction, create_table, update_table
