"""Translation of Spark errors to Mangrove errors with positions in the statement."""

from typing import Final

from mangrove.errors import InvalidInputError, MangroveError, NotFoundError, StorageError
from mangrove.spark.statements import SparkErrorInfo
from mangrove.sql.parse.tokens import format_with_caret

__all__ = ["build_runtime_error", "build_statement_error", "format_spark_error"]

_OF_SPARK_ITSELF: Final = ("", "INTERNAL_ERROR", "FAILED_READ_FILE", "TASK_WRITE_FAILED", "UNABLE_TO_ACQUIRE_MEMORY")
_NOT_FOUND: Final = ("TABLE_OR_VIEW_NOT_FOUND", "SCHEMA_NOT_FOUND", "UNRESOLVED_ROUTINE", "PATH_NOT_FOUND")


def build_statement_error(refusal: SparkErrorInfo, text: str) -> MangroveError:
    """Return the error for a statement that Spark rejected."""
    kind = NotFoundError if refusal.condition.startswith(_NOT_FOUND) else InvalidInputError
    message = format_spark_error(refusal)
    return kind(message if refusal.start is None else format_with_caret(text, refusal.start, message))


def build_runtime_error(refusal: SparkErrorInfo) -> MangroveError:
    """Return the error for a failure during execution, caused by values or by Spark itself."""
    kind, _, _ = refusal.condition.partition(".")
    if kind in _OF_SPARK_ITSELF:
        return StorageError(f"Spark could not compute the rows: {format_spark_error(refusal)}")
    return build_statement_error(refusal, "")


def format_spark_error(refusal: SparkErrorInfo) -> str:
    """Return the cause in one sentence."""
    given = refusal.parameters
    match refusal.condition:
        case "UNRESOLVED_COLUMN.WITH_SUGGESTION":
            return f"column {given.get('objectName')} does not exist; did you mean {given.get('proposal')}?"
        case "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION":
            return f"column {given.get('objectName')} does not exist"
        case "UNRESOLVED_ROUTINE":
            return f"function {given.get('routineName')} does not exist"
        case "TABLE_OR_VIEW_NOT_FOUND":
            return f"table or view {given.get('relationName')} does not exist"
        case "PARSE_SYNTAX_ERROR":
            return f"syntax error near {given.get('error')}{given.get('hint', '')}"
        case _:
            first, stop, rest = refusal.message.partition(". ")
            if "." in refusal.condition and ": " not in first and rest:
                # The first sentence names the kind of mistake, and the second says which.
                first, stop = f"{first}: {rest.partition('. ')[0]}", ""
            return first + stop.strip() if first else f"Spark rejected the statement ({refusal.condition})"
