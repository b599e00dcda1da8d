"""What engines say otherwise: statements put into Spark's words, and the reasons where that is impossible."""

import contextlib
import re
from typing import Final

import sqlglot
from records import Record
from sqlglot import exp
from sqlglot.errors import SqlglotError

__all__ = [
    "is_about_engine",
    "reason_for_taking",
    "reason_of",
    "reason_of_refusal",
    "reduced",
    "target_of",
    "translated",
]

_ENGINE_ITSELF: Final = re.compile(
    r"^\s*(pragma|set(?!\s+var)|reset|checkpoint|flush|create\s+(unique\s+)?(inverted\s+)?index|drop\s+(index|sequence|type|role)"
    r"|explain|export|import|load|install|attach|detach|copy|analyze|vacuum|prepare|execute|deallocate|call|desc|describe"
    r"|create\s+(or\s+replace\s+)?(sequence|type|macro|function|trigger|role|user)|grant|show|reindex|force"
    r"|select\s+.*\bfrom\s+(\[|duckdb_|pragma_|sqlite_|pg_|information_schema|crdb_))",
    re.IGNORECASE | re.DOTALL,
)
_REASONS: Final = {
    "RETURNING": r"\breturning\b",
    "ON CONFLICT, UPSERT, REPLACE": (
        r"\bon\s+(conflict|duplicate)\b|^\s*(upsert|replace)\s+into\b|\binsert\s+or\s+\w+\b|\bupdate\s+or\s+\w+\b"
    ),
    "UPDATE … FROM": r"\bupdate\b.*\bset\b.*\bfrom\b",
    "UPDATE SET (…) = …": r"\bupdate\b.*\bset\s*\(|\bset\s+row\b|\bset\b.*,\s*\([\w, ]+\)\s*=",
    "UPDATE and DELETE with ORDER BY or LIMIT": r"^\s*(update|delete)\b.*\b(order\s+by|limit)\b",
    "DELETE … USING": r"\bdelete\b.*\busing\b",
    "UNIQUE, REFERENCES, computed columns and indexes": (
        r"^\s*(create|alter)\b.*\b(unique|references|foreign\s+key|generated|index|family|as\s*\()"
    ),
    "MERGE with DO NOTHING, ERROR, USING (…), BY NAME, or INSERT and UPDATE without columns": (
        r"\bmerge\b.*(do\s+nothing|then\s+error|using\s*\(\s*\w+\s*(,\s*\w+\s*)*\)|by\s+name"
        r"|insert(\s+default|\s*$|\s+when)|update(\s*$|\s+when))"
    ),
    "BY POSITION": r"\bby\s+position\b",
    "DEFAULT VALUES": r"\bdefault\s+values\b",
    "CREATE TABLE t (names) AS": r"^\s*create\s+table\s+\w+\s*\(\s*\w+\s*(,\s*\w+\s*)*\)\s*as\b",
    "TRUNCATE without TABLE, of several tables, with more words": r"^\s*truncate\s+((?!table)\w+|table\s+\w+\s*[,\w])",
    "words of CockroachDB and its kin": r"\b(interleave|signal\s+sqlstate|(enable|disable)(\s+constraint|\s*,|\s*$))",
    "temporary tables": r"\bcreate\s+(or\s+replace\s+)?(local\s+)?(temp|temporary)\s+table\b",
    "changes inside WITH, FROM or a transaction of one line": (
        r"\b(with|from)\b.*\b(as\s*)?[\[(]\s*(insert|update|delete|merge)\b"
    ),
    "materialized views and streams": r"\b(materialized|create\s+(source|sink)|emit\s+on)\b",
    "databases and schemas of the engine": r"^\s*(create|drop|use|alter)\s+(database|schema)\b|\bfrom\s+\w+\.\w+\.\w+",
    "columns of the system": r"\browid\b|\browcount\b|\bctid\b|\bcolumns\s*\(|\bsystem\s+time\b",
    "transactions of the engine": r"^\s*(begin|start|commit|abort|rollback|savepoint|release|end)\b",
}
_WORDS_OF_ITS_OWN: Final = {
    "types and functions of the engine": (
        r"\b(unnest|generate_series|hugeint|uhugeint|u?tinyint|usmallint|uinteger|ubigint|blob|bytea|struct_pack|list_value"
        r"|range|uuid|gen_random_uuid|bit|bitstring|enum|arrow_typeof|arrow_cast|union_value|map|struct|row|nextval|serial"
        r"|bigserial|array|list|json|interval|time|timetz|decimal|inet|collate|regclass|oid|unique_rowid|concat|random|now"
        r"|current_timestamp|strftime|printf|repeat|exclude|replace|summarize|duckdb_\w+|current_setting|pg_\w+)\b|::|\{|\[|\$\d|\|\|"
    ),
}
_TAKEN: Final = {
    "INSERT looks at no keys, and there is no UNIQUE or REFERENCES": (
        r"duplicate|unique|primary|foreign key|violat|constraint error|already exists.*key|pgcode 23(505|503)"
    ),
    "a failed statement leaves its transaction open": r"transaction is aborted|current transaction",
    "conflicts are found at COMMIT": r"conflict|serializ|restart transaction",
    "parts of statements that are not there elsewhere": (
        r"syntax error|not (yet )?(supported|implemented)|unimplemented|parser error"
    ),
}
_SAID: Final = {
    "a value becomes another type only by Spark's rules": r"but the query has \w+.*; use a cast",
    "names with spaces and signs": r"a name holds no space",
    "names of tables that differ by their capitals": r"does not exist.* did you mean",
    "fewer values than columns": r"the query has \d+ columns, but \S+ takes \d+",
    "a column set twice": r"is set twice",
    "settings and partitions of the engine's tables": r"expected (RENAME, ADD, DROP, ALTER|COLUMN, COLUMNS or CON)",
    "checks that are no conditions, or name the table": r"the check '\w+', which is .* cannot be asked|has 'CHECK' at",
    "a default of another type": r"^line.*: the default .* is .*, but the column is",
    "words of CockroachDB and its kin": r"has 'DISABLE' at|has no schema: give its columns",
}
_TARGET: Final = re.compile(
    r"\b(?:create\s+(?:or\s+replace\s+)?(?:local\s+|global\s+)?(?:temp\s+|temporary\s+)?(?:table|view|sequence|type)"
    r"|insert\s+(?:or\s+\w+\s+)?into|upsert\s+into|replace\s+into|update(?:\s+or\s+\w+)?|delete\s+from|merge\s+into"
    r"|alter\s+table|drop\s+table|drop\s+view|truncate(?:\s+table)?|copy)\s+(?:if\s+(?:not\s+)?exists\s+)?(?:only\s+)?"
    r"([\w.\"`]+)",
    re.IGNORECASE,
)


def is_about_engine(sql: str) -> bool:
    """Return whether a statement is about the engine itself: its settings, plans, storage and listings."""
    return _ENGINE_ITSELF.search(sql) is not None


def reason_of(sql: str) -> str:
    """Return which words of an engine's own dialect the statement has, nothing where it has none."""
    return _first(_REASONS, sql) or _first(_WORDS_OF_ITS_OWN, sql)


def reason_for_taking(record: Record) -> str:
    """Return by which of our decisions we take what the engine refuses, nothing where by none."""
    return _first(_TAKEN, record.message)


def reason_of_refusal(message: str) -> str:
    """Return by which rule of ours a statement was refused that has no words of its own, nothing where by none."""
    return _first(_SAID, message)


def target_of(sql: str) -> str:
    """Return the table that a statement makes or changes, in small letters without its namespace."""
    found = _TARGET.search(sql)
    return "" if found is None else found[1].strip('"`').split(".")[-1].lower()


def translated(sql: str, dialect: str) -> str:
    """Return the statement in Spark's dialect, or as it is where sqlglot does not know it."""
    if dialect == "spark" or _first(_REASONS, sql):
        return sql
    if re.search(r"\bmerge\s+into\b", sql, re.IGNORECASE):
        # sqlglot takes brackets away that Spark wants around the source.
        return sql.replace('"', "`")
    sql = re.sub(r"\b(from|join)\s+range\s*\(", r"\1 spark_range(", sql, flags=re.IGNORECASE)
    with contextlib.suppress(SqlglotError, RecursionError):
        found = sqlglot.parse(sql, read=dialect)
        if found and None not in found:
            sql = "; ".join(_with_column_names(one).sql("spark") for one in found if one is not None)
    return re.sub("spark_range", "range", sql, flags=re.IGNORECASE)


def _with_column_names(statement: exp.Expr) -> exp.Expr:
    """Return the statement with the columns of CREATE TABLE … AS VALUES called column1, column2 and so on."""
    values = statement.args.get("expression")
    if isinstance(statement, exp.Create) and isinstance(values, exp.Values):
        names = [f"column{place}" for place in range(1, len(values.expressions[0].expressions) + 1)]
        source = exp.Values(expressions=values.expressions, alias=exp.TableAlias(this="v", columns=names))
        statement.set("expression", exp.select("*").from_(source))
    return statement


def reduced(sql: str, dialect: str) -> str | None:
    """Return a statement that we know with the same effect on rows, None where there is none.

    What was refused stays refused. This one only lets the records behind it be judged.
    """
    with contextlib.suppress(SqlglotError, RecursionError, AttributeError):
        found = sqlglot.parse(sql, read=dialect)
        if len(found) != 1 or found[0] is None:
            return None
        statement = found[0]
        if statement.args.get("returning") is not None:
            statement.set("returning", None)
        elif isinstance(statement, exp.Create) and isinstance(statement.this, exp.Schema):
            _without_constraints(statement.this)
        else:
            return None
        text = _with_column_names(statement).sql("spark")
        return None if _first(_REASONS, text) else text
    return None


def _without_constraints(schema: exp.Schema) -> None:
    schema.set("expressions", [one for one in schema.expressions if _is_kept(one)])
    for column in schema.expressions:
        kept = [one for one in column.args.get("constraints") or () if isinstance(one.kind, _KEPT)]
        if isinstance(column, exp.ColumnDef):
            column.set("constraints", kept)


_KEPT: Final = (exp.NotNullColumnConstraint, exp.DefaultColumnConstraint, exp.PrimaryKeyColumnConstraint)


def _is_kept(one: exp.Expr) -> bool:
    return isinstance(one, exp.ColumnDef | exp.PrimaryKey)


def _first(reasons: dict[str, str], text: str) -> str:
    flat = " ".join(text.split())
    return next((reason for reason, words in reasons.items() if re.search(words, flat, re.IGNORECASE)), "")
