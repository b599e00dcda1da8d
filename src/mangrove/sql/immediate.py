"""Values that a statement needs before it can be taken apart: computed names, and the texts of EXECUTE IMMEDIATE."""

from mangrove.errors import InvalidInputError
from mangrove.spark.session_names import SessionNames
from mangrove.spark.statements import Arguments, Frame, Refused, Text, renamed_columns, run_text
from mangrove.sql.cursor import Piece
from mangrove.sql.queries import QueryBinder
from mangrove.sql.refusals import raised
from mangrove.sql.session_statements import ExecuteImmediate

__all__ = ["immediate_arguments", "set_variables", "text_of", "value_of"]


def value_of(piece: Piece, binder: QueryBinder, whole: str) -> object:
    """Return what Spark finds an expression without columns to be."""
    return binder.query(Piece(f"SELECT {piece.text}", piece.start - len("SELECT ")), whole).frame.collect()[0][0]


def text_of(piece: Piece, binder: QueryBinder, whole: str) -> str:
    """Return the text that an expression is."""
    value = value_of(piece, binder, whole)
    if not isinstance(value, str) or not value.strip():
        raise InvalidInputError(f"{piece.text} is {value!r}: it must be a text")
    return value


def immediate_arguments(statement: ExecuteImmediate, binder: QueryBinder, whole: str) -> Arguments:
    """Return the values that EXECUTE IMMEDIATE gives to the parameters of its text."""
    values = [(name, value_of(piece, binder, whole)) for name, piece in statement.arguments]
    if values and values[0][0] is not None:
        return {str(name): value for name, value in values}
    return [value for _, value in values] or None


def set_variables(into: Piece, frame: Frame, names: SessionNames, whole: str) -> None:
    """Set variables of the session to the columns of the only row; without a row, to null."""
    # Two columns of one name would have no place in a frame that has one.
    numbered = renamed_columns(frame, [f"column {number}" for number in range(len(frame.columns))])
    pieces = [Text("SET VAR (", None), Text(into.text, into.start), Text(") = (SELECT * FROM ", None)]
    outcome = run_text(names, [*pieces, numbered, Text(")", None)])
    if isinstance(outcome, Refused):
        raise raised(outcome, whole)
