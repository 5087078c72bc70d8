"""The position in the server's log at which the source of changes continues."""

from penstock.connectors.postgres_cdc.description import TableSplit


def test_a_long_transaction_continues_where_it_was():
    """The server reports its position while it decodes the transaction again."""
    split = TableSplit(lsn=100, commit_lsn=200, emitted=5)
    split.advance(150)
    assert (split.lsn, split.commit_lsn, split.emitted) == (150, 200, 5)
    split.advance(201)
    assert (split.lsn, split.commit_lsn, split.emitted) == (201, 0, 0)


def test_it_never_goes_back():
    split = TableSplit(lsn=100)
    split.advance(90)
    assert split.lsn == 100
