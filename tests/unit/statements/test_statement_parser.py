"""Statements are split into parts by tokens; what is no statement is refused at its place."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lazydelta.errors import ConfigError, PredicateError, QueryError
from lazydelta.expressions.tokens import tokenize
from lazydelta.statements import parse_statement, tokens
from lazydelta.statements.statement import (
    Assignment,
    Clause,
    Delete,
    Insert,
    Merge,
    Query,
    Subquery,
    TableName,
    Update,
)

KINDS = ("string", "quoted")
T = TableName(name="t")


def assign(column, expression):
    return Assignment(column=tuple(column.split(".")), expression=expression)


# --- tables -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("trips", TableName(name="trips")),
        ("lake.trips", TableName(name="lake.trips")),
        ("`./my trips`", TableName(name="./my trips", address="./my trips")),
        ("`a``b`", TableName(name="a`b", address="a`b")),
        ("delta.`s3://b/t?x=1`", TableName(name=None, address="s3://b/t?x=1")),
        ("Delta . `/t`", TableName(name=None, address="/t")),
        ("lake.`t`", TableName(name="lake.t")),
        ("trips AS t", TableName(name="trips", alias="t")),
        ("trips t", TableName(name="trips", alias="t")),
        ("`/t` `the t`", TableName(name="/t", address="/t", alias="the t")),
    ],
)
def test_a_table_is_a_name_or_an_address_with_an_alias(written, expected):
    assert parse_statement(f"DELETE FROM {written} WHERE a = 1") == Delete(
        target=expected, where="a = 1"
    )


# --- statements -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("DELETE FROM t", Delete(target=T)),
        ("delete from t;", Delete(target=T)),
        ("DELETE FROM t WHERE a = ';' ; -- done", Delete(target=T, where="a = ';'")),
        (
            "UPDATE t SET a = a + 1, s.b = 'x, y' WHERE c IN (1, 2)",
            Update(
                target=T,
                assignments=(assign("a", "a + 1"), assign("s.b", "'x, y'")),
                where="c IN (1, 2)",
            ),
        ),
        (
            "UPDATE t SET `where` = CASE WHEN a THEN f(b, c) ELSE t.where END",
            Update(
                target=T,
                assignments=(assign("where", "CASE WHEN a THEN f(b, c) ELSE t.where END"),),
            ),
        ),
        (
            "INSERT INTO t VALUES (1, 'a'), (f(2, 3), NULL)",
            Insert(target=T, rows=(("1", "'a'"), ("f(2, 3)", "NULL"))),
        ),
        (
            "INSERT INTO TABLE t (a, `b c`) VALUES (1, DEFAULT)",
            Insert(target=T, columns=("a", "b c"), rows=(("1", "DEFAULT"),)),
        ),
        (
            "INSERT INTO t (a) SELECT 'x\\' FROM s; ",  # no escape in the dialect of engines
            Insert(target=T, columns=("a",), query="SELECT 'x\\' FROM s"),
        ),
        ("INSERT INTO t (SELECT 1)", Insert(target=T, query="(SELECT 1)")),
        (
            "INSERT INTO t WITH x AS (SELECT 1) TABLE x",
            Insert(target=T, query="WITH x AS (SELECT 1) TABLE x"),
        ),
        ("INSERT INTO t BY NAME SELECT 1 AS a", Insert(target=T, by_name=True, query="SELECT 1 AS a")),
        ("INSERT OVERWRITE t FROM s", Insert(target=T, overwrite=True, query="FROM s")),
        (
            "INSERT OVERWRITE t PARTITION (a = -1, `b c` = DATE '2026-01-02', d = null, e) FROM s",
            Insert(
                target=T,
                overwrite=True,
                partition={"a": "-1", "b c": "DATE '2026-01-02'", "d": "null", "e": None},
                query="FROM s",
            ),
        ),
        (
            "INSERT INTO t PARTITION (a = 'x') (b) VALUES (1)",
            Insert(target=T, partition={"a": "'x'"}, columns=("b",), rows=(("1",),)),
        ),
        (
            "INSERT INTO t REPLACE WHERE a = 1 AND b IN ('select') SELECT 1",
            Insert(target=T, replace_where="a = 1 AND b IN ('select')", query="SELECT 1"),
        ),
    ],
)  # fmt: skip
def test_a_statement_is_split_into_its_parts(sql, expected):
    assert parse_statement(sql) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "WITH x AS (SELECT 1) SELECT * FROM x",
        "FROM t SELECT a[1:2], b::int, $$;$$, {'k': 1}",
        "(SELECT ';')",
        "VALUES (1)",
        "DESCRIBE t",
    ],
)
def test_a_query_stays_as_it_is(sql):
    assert parse_statement(f"  -- why\n{sql} ; /* end */") == Query(sql=sql)


# --- MERGE ------------------------------------------------------------------------------------

MERGE = "MERGE INTO t USING s ON t.id = s.id "


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("MATCHED THEN UPDATE SET *", Clause(kind="matched", action="update")),
        (
            "MATCHED AND s.op = 'u' THEN UPDATE SET t.a = s.a, b = DEFAULT",
            Clause(
                kind="matched",
                action="update",
                condition="s.op = 'u'",
                assignments=(assign("t.a", "s.a"), assign("b", "DEFAULT")),
            ),
        ),
        (
            "MATCHED AND CASE WHEN s.a THEN true END THEN DELETE",
            Clause(kind="matched", action="delete", condition="CASE WHEN s.a THEN true END"),
        ),
        ("NOT MATCHED THEN INSERT *", Clause(kind="not_matched", action="insert")),
        (
            "NOT MATCHED BY TARGET AND s.a > 1 THEN INSERT (a, `b`) VALUES (s.a, concat('x', s.b))",
            Clause(
                kind="not_matched",
                action="insert",
                condition="s.a > 1",
                assignments=(assign("a", "s.a"), assign("b", "concat('x', s.b)")),
            ),
        ),
        (
            "NOT MATCHED BY SOURCE AND t.a IS NULL THEN UPDATE SET a = 0",
            Clause(
                kind="not_matched_by_source",
                action="update",
                condition="t.a IS NULL",
                assignments=(assign("a", "0"),),
            ),
        ),
        (
            "NOT MATCHED BY SOURCE THEN DELETE",
            Clause(kind="not_matched_by_source", action="delete"),
        ),
    ],
)
def test_each_clause_of_merge(clause, expected):
    other = Clause(kind="matched", action="delete", condition="false")
    assert parse_statement(MERGE + f"WHEN MATCHED AND false THEN DELETE WHEN {clause};") == Merge(
        target=T, source=TableName(name="s"), on="t.id = s.id", clauses=(other, expected)
    )


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("updates AS s", TableName(name="updates", alias="s")),
        ("delta.`/u` s", TableName(name=None, address="/u", alias="s")),
        ("(SELECT ')' FROM (TABLE u)) s", Subquery(sql="SELECT ')' FROM (TABLE u)", alias="s")),
        ("(SELECT '\\' AS a) AS s", Subquery(sql="SELECT '\\' AS a", alias="s")),
        ("(SELECT 1)", Subquery(sql="SELECT 1")),
        (
            "(VALUES (1, 'a')) AS s(id, `the name`)",
            Subquery(sql="VALUES (1, 'a')", alias="s", columns=("id", "the name")),
        ),
    ],
)
def test_the_source_of_a_merge_is_a_table_or_a_query(source, expected):
    sql = f"MERGE INTO t USING {source} ON a = 'it\\'s' WHEN MATCHED THEN DELETE"
    assert parse_statement(sql).source == expected


def test_a_merge_with_schema_evolution():
    sql = "MERGE WITH SCHEMA EVOLUTION INTO t USING s ON true WHEN MATCHED THEN DELETE"
    assert parse_statement(sql).merge_schema


# --- what is refused --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("", "expected a query, DELETE, UPDATE, INSERT or MERGE, but found the end at character 1"),
        (" ;", "expected a query, DELETE"),
        ("CREATE TABLE t (a INT)", "expected a query, .* but found 'CREATE' at character 1"),
        ("'x'", "expected a query"),
        ("DELETE FROM t WHERE a IN (SELECT 1)", "expected an expression without a query"),
        ("UPDATE t SET a = ( -- the\nSELECT 1)", "expected an expression without a query"),
        ("DELETE t", "expected FROM, but found 't' at character 8"),
        ("DELETE FROM", "expected a table: a name, or a path in `backticks`, but found the end"),
        ("DELETE FROM 't'", "expected a table"),
        ("DELETE FROM WHERE a", "expected a table"),
        ("DELETE FROM t AS WHERE", "expected an alias, but found 'WHERE'"),
        ("DELETE FROM t LIMIT 1", "expected the end of the statement, but found '1'"),
        ("DELETE FROM t WHERE", "expected an expression, but found the end at character 20"),
        ("DELETE FROM t WHERE (a", r"expected what closes '\(' at character 21, but found the end"),
        ("DELETE FROM t WHERE a)", r"expected the end of the statement, but found '\)'"),
        ("DELETE FROM t WHERE a = 'x", "' at character 25 is not closed"),
        ("DELETE FROM `t", "` at character 13 is not closed"),
        ("DELETE FROM t /* no end", r"/\* at character 15 is not closed"),
        ("DELETE FROM t; DELETE FROM t", "give one statement: nothing may follow the ';'"),
        ("SELECT 1; DROP TABLE t", "give one statement"),
        ("INSERT INTO t SELECT 1; SELECT 2", "give one statement"),
        ("UPDATE t", "expected SET, but found the end"),
        ("UPDATE t SET", "expected a column"),
        ("UPDATE t SET a", "expected '=', but found the end"),
        ("UPDATE t SET a = , b = 1", "expected an expression, but found ','"),
        ("UPDATE t SET a. = 1", "expected a field"),
        ("INSERT t VALUES (1)", "expected INTO or OVERWRITE"),
        ("INSERT INTO t", "expected VALUES or SELECT"),
        ("INSERT INTO t (a, b) VALUES (1)", "expected 2 values, but found 1 at character 29"),
        ("INSERT INTO t VALUES (1), (1, 2)", "expected 1 values, but found 2"),
        ("INSERT INTO t VALUES 1", r"expected '\(', but found '1'"),
        ("INSERT INTO t (a, A) VALUES (1, 2)", "names the column 'A' twice"),
        ("INSERT INTO t (a b) VALUES (1)", r"expected ',' or '\)'"),
        ("INSERT INTO t BY NAME VALUES (1)", "expected SELECT"),
        ("INSERT INTO t PARTITION (a = b) SELECT 1", "expected a literal"),
        ("INSERT INTO t PARTITION (a, A = 1) SELECT 1", "names the column 'A' twice"),
        ("INSERT OVERWRITE t REPLACE WHERE a = 1 SELECT 1", "expected VALUES or SELECT"),
        ("INSERT INTO t REPLACE WHERE SELECT 1", "expected an expression"),
        ("INSERT INTO t (a) BY NAME SELECT 1", "a list of columns or BY NAME, not both"),
        ("MERGE t", "expected INTO"),
        ("MERGE INTO t ON a", "expected USING, but found 'ON'"),
        ("MERGE INTO t USING s WHEN MATCHED THEN DELETE", "expected ON"),
        ("MERGE INTO t USING () s ON a", "expected a query at character 21"),
        ("MERGE INTO t USING (SELECT 1 ON a", r"\( at character 20 is not closed"),
        ("MERGE INTO t USING s ON a", "expected WHEN, but found the end"),
        ("MERGE INTO t USING s ON a WHEN", "expected MATCHED or NOT MATCHED"),
        (MERGE + "WHEN MATCHED DELETE", "expected THEN"),
        (MERGE + "WHEN MATCHED THEN INSERT *", "expected UPDATE or DELETE, but found 'INSERT'"),
        (MERGE + "WHEN NOT MATCHED THEN DELETE", "expected INSERT"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT VALUES (1)", "expected '[*]' or a list of columns"),
        (MERGE + "WHEN NOT MATCHED BY x THEN DELETE", "expected TARGET"),
        (MERGE + "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET *", "expected a column"),
        (MERGE + "WHEN NOT MATCHED THEN INSERT (a) VALUES (1, 2)", "expected 1 values"),
        (MERGE + "WHEN MATCHED THEN DELETE x", "expected the end of the statement"),
    ],
)
def test_a_bad_statement_is_refused_with_what_was_expected(sql, reason):
    with pytest.raises(QueryError, match=reason):
        parse_statement(sql)


def test_an_error_shows_the_place():
    with pytest.raises(QueryError) as caught:
        parse_statement("UPDATE t\nSET a := 1")
    place, caret = str(caught.value).splitlines()[1:]
    assert place[caret.index("^") :].startswith(":= 1")


def test_an_error_shows_no_secret():
    with pytest.raises(QueryError) as caught:
        parse_statement("DELETE FROM `https://h/t?sv=1&sig=secret` WHERE")
    assert "secret" not in str(caught.value)


def test_a_statement_is_a_string():
    with pytest.raises(ConfigError, match="must be a string, not bytes"):
        parse_statement(b"DELETE FROM t")


# --- random statements ------------------------------------------------------------------------

names = st.sampled_from(["a", "Tt", "where", "x y", "a`b", "d.e", "matched", "ß", ";", "--"])
atoms = st.one_of(
    st.sampled_from(["1", "1.", "a.when", "`set`", "x'00'", "r'\\'", "DATE '2026-01-01'"]),
    st.text("a';\\\"`(), -", max_size=5).map(
        lambda text: "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    ),
    st.just('"WHEN \\" ("'),
)
expressions = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.builds("f({}, {})".format, inner, inner),
        st.builds("CASE WHEN {} THEN {} END".format, inner, inner),
        st.builds("{} /* WHEN ' */ = {}".format, inner, inner),
        st.builds("[{}, {}]".format, inner, inner),
    ),
    max_leaves=5,
)
maybe = st.one_of(st.none(), expressions)
tables = st.builds(TableName, name=names, alias=st.one_of(st.none(), names))
paths = st.lists(names, min_size=1, max_size=2).map(tuple)
assigned = st.lists(
    st.builds(Assignment, column=paths, expression=expressions), min_size=1, max_size=3
).map(tuple)
inserted = st.lists(
    st.builds(Assignment, column=names.map(lambda name: (name,)), expression=expressions),
    min_size=1,
    max_size=3,
    unique_by=lambda part: part.column[0].lower(),
).map(tuple)
clause = st.one_of(
    st.builds(
        Clause,
        kind=st.just("matched"),
        action=st.just("update"),
        condition=maybe,
        assignments=st.one_of(st.none(), assigned),
    ),
    st.builds(
        Clause,
        kind=st.sampled_from(["matched", "not_matched_by_source"]),
        action=st.just("delete"),
        condition=maybe,
    ),
    st.builds(
        Clause,
        kind=st.just("not_matched"),
        action=st.just("insert"),
        condition=maybe,
        assignments=st.one_of(st.none(), inserted),
    ),
    st.builds(
        Clause,
        kind=st.just("not_matched_by_source"),
        action=st.just("update"),
        condition=maybe,
        assignments=assigned,
    ),
)
statements = st.one_of(
    st.builds(Delete, target=tables, where=maybe),
    st.builds(Update, target=tables, assignments=assigned, where=maybe),
    st.builds(
        Insert,
        target=st.builds(TableName, name=names),
        columns=st.just(("a", "x y")),
        rows=st.lists(st.tuples(expressions, expressions), min_size=1, max_size=3).map(tuple),
        overwrite=st.booleans(),
    ),
    st.builds(
        Merge,
        target=tables,
        source=tables,
        on=expressions,
        clauses=st.lists(clause, min_size=1, max_size=3).map(tuple),
        merge_schema=st.booleans(),
    ),
)


def quoted(name):
    return "`" + name.replace("`", "``") + "`"


def write_table(table):
    alias = "" if table.alias is None else f" {quoted(table.alias)}"
    return f"x.{quoted(table.name)}{alias}"


def write_assignments(assignments):
    return ", ".join(
        f"{'.'.join(map(quoted, part.column))} = {part.expression}" for part in assignments
    )


def write_clause(part):
    sql = f"WHEN {part.kind.replace('_', ' ').upper()}"
    sql += f" AND {part.condition} THEN " if part.condition is not None else " THEN "
    if part.action == "insert" and part.assignments is not None:
        columns = ", ".join(quoted(one.column[0]) for one in part.assignments)
        values = ", ".join(one.expression for one in part.assignments)
        return sql + f"INSERT ({columns}) VALUES ({values})"
    if part.action == "update":
        everything = part.assignments is None
        return sql + f"UPDATE SET {'*' if everything else write_assignments(part.assignments)}"
    return sql + ("DELETE" if part.action == "delete" else "INSERT *")


def write(statement):
    match statement:
        case Delete(target=target, where=where):
            sql = f"DELETE FROM {write_table(target)}"
        case Update(target=target, assignments=assignments, where=where):
            sql = f"UPDATE {write_table(target)} SET {write_assignments(assignments)}"
        case Insert(target=target, columns=columns, rows=rows, overwrite=overwrite):
            sql = f"INSERT {'OVERWRITE' if overwrite else 'INTO'} {write_table(target)} "
            sql += f"({', '.join(map(quoted, columns))}) VALUES "
            return sql + ", ".join(f"({', '.join(row)})" for row in rows)
        case Merge(target=target, source=source, on=on, clauses=clauses):
            sql = "MERGE WITH SCHEMA EVOLUTION INTO" if statement.merge_schema else "MERGE INTO"
            sql += f" {write_table(target)} USING {write_table(source)} ON {on} "
            return sql + " ".join(map(write_clause, clauses))
    return sql if where is None else f"{sql} WHERE {where}"


def renamed(table):
    return TableName(name=f"x.{table.name}", alias=table.alias)


@given(statements, st.sampled_from(["", ";", " -- end", "\n;\n"]))
def test_the_parts_of_a_random_statement_come_back(statement, end):
    found = parse_statement(write(statement) + end)
    fields = {name: getattr(statement, name) for name in type(statement).__dataclass_fields__}
    fields["target"] = renamed(statement.target)
    if isinstance(statement, Merge):
        fields["source"] = renamed(statement.source)
    assert found == type(statement)(**fields)


@given(
    st.text("aA1'\"`()[],;.=*- \n/\\", max_size=30),
    st.sampled_from(["DELETE FROM t WHERE ", MERGE]),
)
def test_any_text_is_parsed_or_refused(text, start):  # fmt: skip
    try:
        parse_statement(start + text)
    except QueryError as error:
        assert "\n" in error.reason  # it shows the place


@given(st.text("aAr'\"`(;.-1 \n/*\\", max_size=20))
def test_strings_and_quoted_names_end_where_the_parser_of_expressions_ends_them(text):
    try:
        expected = tokenize(text, limit=100)
        found = list(tokens(text, "spark"))
    except (PredicateError, QueryError):
        return
    quoted = [(token.start + len(token.source)) for token in expected if token.kind in KINDS]
    assert [token.end for token in found if token.kind in KINDS] == quoted
