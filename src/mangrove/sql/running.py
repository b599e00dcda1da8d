"""Running SQL text from Python: every statement of it in turn, the rows of the last one given back."""

from mangrove.errors import InvalidInputError
from mangrove.lakehouse.lakehouse import Lakehouse
from mangrove.lakehouse.transactions import LakeTransaction
from mangrove.spark.statements import Arguments, Frame
from mangrove.sql.results import Result
from mangrove.sql.session import SqlSession

__all__ = ["run_sql"]


def run_sql(lake: Lakehouse, transaction: LakeTransaction | None, text: str, arguments: Arguments = None) -> Frame:
    """Return the rows of the last statement as Spark's; what was not a query tells what it did.

    A transaction that the text begins must end in it: nobody could end it later.
    """
    session = SqlSession(lake, transaction=transaction)
    last: Result | None = None
    try:
        for result in session.script(text, arguments):
            last = result
        if transaction is None and session.in_transaction:
            raise InvalidInputError(
                "the text begins a transaction and does not end it, so it was rolled back: add COMMIT, use lake."
                "transaction() and its sql, or a SqlSession"
            )
    finally:
        session.close()
    if last is None:
        raise InvalidInputError("the text holds no statement: write one, such as SELECT 1")
    return session.frame(last)
