"""One grammar of SQL statements that change or maintain tables, for every engine that runs them.

Expressions and queries in them stay SQL. Nothing here knows tables, only their schemas.
"""

from __future__ import annotations

from lazydelta.statements.statement import (
    Clause,
    Delete,
    Insert,
    Merge,
    Query,
    Subquery,
    TableName,
    Update,
    is_default,
)
from lazydelta.statements.statement_lexer import Token, tokens
from lazydelta.statements.statement_parser import parse_statement
from lazydelta.statements.target_names import TargetNames, default_of, table_alias, with_clauses

__all__ = [
    "Clause",
    "Delete",
    "Insert",
    "Merge",
    "Query",
    "Subquery",
    "TableName",
    "TargetNames",
    "Token",
    "Update",
    "default_of",
    "is_default",
    "parse_statement",
    "table_alias",
    "tokens",
    "with_clauses",
]
