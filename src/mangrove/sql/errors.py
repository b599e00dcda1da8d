"""Translation of Spark errors to Mangrove errors with positions in the statement."""

from typing import Final

from mangrove.errors import InvalidInputError, MangroveError, NotFoundError, StorageError
from mangrove.lakehouse.sql_port import SqlErrorInfo
from mangrove.sql.parse.tokens import format_with_caret

__all__ = ["build_runtime_error", "build_statement_error", "format_spark_error"]

_OF_SPARK_ITSELF: Final = ("", "INTERNAL_ERROR", "FAILED_READ_FILE", "TASK_WRITE_FAILED", "UNABLE_TO_ACQUIRE_MEMORY")
_NOT_FOUND: Final = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "UNRESOLVED_ROUTINE", "PATH_NOT_FOUND")


def build_statement_error(error: SqlErrorInfo, text: str) -> MangroveError:
    """Return the error for a statement that Spark rejected."""
    kind = NotFoundError if error.condition.startswith(_NOT_FOUND) else InvalidInputError
    message = format_spark_error(error)
    return kind(message if error.start is None else format_with_caret(text, error.start, message))


def build_runtime_error(error: SqlErrorInfo) -> MangroveError:
    """Return the error for a failure during execution, caused by values or by Spark itself."""
    kind, _, _ = error.condition.partition(".")
    if kind in _OF_SPARK_ITSELF:
        return StorageError(f"Spark could not compute the rows: {format_spark_error(error)}")
    return build_statement_error(error, "")


def format_spark_error(error: SqlErrorInfo) -> str:
    """Return the cause in one sentence."""
    parameters = error.parameters
    match error.condition:
        case "UNRESOLVED_COLUMN.WITH_SUGGESTION":
            return f"column {parameters.get('objectName')} does not exist; did you mean {parameters.get('proposal')}?"
        case "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION":
            return f"column {parameters.get('objectName')} does not exist"
        case "UNRESOLVED_ROUTINE":
            return f"function {parameters.get('routineName')} does not exist"
        case "TABLE_OR_VIEW_NOT_FOUND":
            return f"table or view {parameters.get('relationName')} does not exist"
        case "PARSE_SYNTAX_ERROR":
            return f"syntax error near {parameters.get('error')}{parameters.get('hint', '')}"
        case _:
            first, stop, rest = error.message.partition(". ")
            if "." in error.condition and ": " not in first and rest:
                # The first sentence is the kind of error, the second has the details.
                first, stop = f"{first}: {rest.partition('. ')[0]}", ""
            return first + stop.strip() if first else f"Spark rejected the statement ({error.condition})"
