"""Golden files of the skipping rewrite: a predicate, and its form over statistics.

One file per rule. A line with `;` at its end is a predicate; the line below it, up to the next
`;`, is the rewritten predicate, or `KEEP ALL` where statistics do not decide.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from lazydelta.expressions import as_predicate, bind, derivations, to_skipping
from lazydelta.schema import parse_schema

HERE = Path(__file__).parent
GENERATED = {
    "g_day": ("date", "CAST(t AS DATE)"),
    "g_wall": ("date", "CAST(n AS DATE)"),
    "g_year": ("integer", "YEAR(n)"),
    "g_month": ("integer", "MONTH(n)"),
    "g_text": ("string", "SUBSTRING(s, 1, 3)"),
}
FIELDS = [
    *(("b", "byte"), ("i", "integer"), ("l", "long"), ("x", "double"), ("f", "float")),
    *(("m", "decimal(10,2)"), ("d", "date"), ("t", "timestamp"), ("n", "timestamp_ntz")),
    *(("s", "string"), ("s2", "string"), ("o", "boolean"), ("z", "binary")),
    *(("p", "integer"), ("q", "string")),
]
SCHEMA = parse_schema(
    json.dumps(
        {
            "type": "struct",
            "fields": [
                *({"name": name, "type": kind} for name, kind in FIELDS),
                *(
                    {"name": n, "type": k, "metadata": {"delta.generationExpression": e}}
                    for n, (k, e) in GENERATED.items()
                ),
                {
                    "name": "st",
                    "type": {"type": "struct", "fields": [{"name": "k", "type": "long"}]},
                },
            ],
        }
    ),
    where="golden",
)


def cases(path):
    statements = [part.strip() for part in path.read_text().split(";\n") if part.strip()]
    given, expected = statements[::2], statements[1::2]
    assert len(given) == len(expected), f"{path.name}: a predicate without an answer"
    return [
        pytest.param(path.stem, *pair, id=f"{path.stem}: {pair[0]}")
        for pair in zip(given, expected, strict=True)
    ]


@pytest.mark.parametrize(
    ("rule", "predicate", "expected"),
    [case for path in sorted(HERE.glob("*.sql")) for case in cases(path)],
)
def test_rewrite(rule, predicate, expected):
    partitions = ("p", "q", *(GENERATED if rule == "generated" else ()))
    bound = bind(as_predicate(predicate), SCHEMA, partitions)
    derived = derivations(SCHEMA, partitions) if rule == "generated" else ()
    rewritten = to_skipping(bound, derived, null_checks=rule == "null_checks")
    assert ("KEEP ALL" if rewritten is None else str(rewritten)) == " ".join(expected.split())
