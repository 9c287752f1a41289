"""Plan a MERGE: bind the condition and clauses, and evolve the schema. Reads no rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from lazydelta._arrow import true_mask
from lazydelta.errors import ColumnNotFoundError, ConfigError
from lazydelta.expressions import as_predicate, col
from lazydelta.operations.dml.assignments import Assignments, ExpressionScope
from lazydelta.operations.dml.merge.condition import split_condition, target_predicate
from lazydelta.operations.dml.merge.joined_rows import JoinedSchema, evaluate_rows
from lazydelta.schema import StructType
from lazydelta.writer.columns import TableDefinition, is_identity, with_merged_schema
from lazydelta.writer.enforcement import GENERATION_EXPRESSION
from lazydelta.writer.files import DataLayout

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from lazydelta.expressions import Predicate
    from lazydelta.operations.dml.merge.clauses import Action, MergeClause, MergeRequest
    from lazydelta.operations.dml.merge.condition import Condition
    from lazydelta.operations.dml.merge.pairs import Pairs
    from lazydelta.operations.dml.nested_copies import MissingFields
    from lazydelta.operations.dml.verb import Verb
    from lazydelta.schema import StructField
    from lazydelta.snapshot import SnapshotState

__all__ = [
    "MergePlan",
    "PlannedClause",
    "assigned_columns",
    "choose_clauses",
    "choose_pairs",
    "evolved_definition",
    "missing_fields",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedClause:
    """A clause bound to the schemas."""

    action: Action
    where: Predicate | None
    assignments: Assignments | None
    """None for a delete."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePlan:
    """A MERGE bound to a table and the schema of a source."""

    request: MergeRequest
    condition: Condition
    pairs: JoinedSchema
    """Both sides: the condition and WHEN MATCHED."""
    target: JoinedSchema
    """The target alone: WHEN NOT MATCHED BY SOURCE."""
    source: JoinedSchema
    """The source alone: WHEN NOT MATCHED."""
    definition: TableDefinition
    """The table after the operation."""
    matched: tuple[PlannedClause, ...]
    not_matched: tuple[PlannedClause, ...]
    not_matched_by_source: tuple[PlannedClause, ...]

    @classmethod
    def build(cls, snapshot: SnapshotState, request: MergeRequest, rows: StructType) -> MergePlan:
        """Bind a request.

        Args:
            snapshot: The table.
            request: The request.
            rows: The schema of the source.

        Raises:
            ConfigError: There is no clause, or two assignments of one column.
            PredicateError: An expression is not supported, or a name is ambiguous.
            ColumnNotFoundError: An expression or assignment names an unknown column.
            SchemaMismatchError: A value does not fit its column.
        """
        if not request.clauses:
            raise ConfigError("merge", "needs a clause: what to do WHEN rows match, or do not")
        pairs = JoinedSchema(
            target_alias=request.target_alias,
            source_alias=request.source_alias,
            target=snapshot.schema,
            source=rows,
            now=request.options.now,
        )
        target, source = replace(pairs, source=None), replace(pairs, target=None)
        definition = evolved_definition(snapshot, request, rows)
        planner = _Planner(snapshot.schema, definition, pairs, request)
        return cls(
            request=request,
            condition=split_condition(request.on, pairs),
            pairs=pairs,
            target=target,
            source=source,
            definition=definition,
            matched=planner.clauses(request.of_kind("matched"), pairs),
            not_matched=planner.clauses(request.of_kind("not_matched"), source),
            not_matched_by_source=planner.clauses(request.of_kind("not_matched_by_source"), target),
        )

    def layout(self, verb: Verb) -> DataLayout:
        """Return the layout of new rows."""
        after = self.definition
        return DataLayout.of(
            after.schema,
            after.protocol,
            after.metadata,
            verb.config.write,
            clustered_by=verb.snapshot.clustering_columns(),
        )

    @property
    def match_columns(self) -> tuple[list[str], list[str]]:
        """Columns of the target, and of the source, that decide which clause a pair gets."""
        condition = self.condition
        wheres = [clause.where for clause in self.matched]
        keys = [key.target for key in condition.keys]
        target = self.pairs.paths([*keys, condition.residual, *wheres], self.pairs.target_alias)
        source = self.pairs.paths([condition.residual, *wheres], self.pairs.source_alias)
        return _tops(target), _tops(source)

    @property
    def update_columns(self) -> tuple[list[str], list[str]]:
        """Columns of both sides that updates of matched rows need."""
        target, source = (set(names) for names in self.match_columns)
        for clause in self.matched:
            if clause.assignments is not None:
                read = [self.pairs.resolve(path) for path in clause.assignments.columns]
                target |= {p[0] for alias, p in read if alias == self.pairs.target_alias}
                target |= clause.assignments.old_columns
                source |= {p[0] for alias, p in read if alias == self.pairs.source_alias}
        return sorted(target), sorted(source)

    def by_source_columns(self, *, updates: bool) -> list[str]:
        """Columns of the target that WHEN NOT MATCHED BY SOURCE needs.

        Args:
            updates: Whether rows are changed, not only found.
        """
        clauses = self.not_matched_by_source
        found = set(_tops(self.target.paths([c.where for c in clauses], self.target.target_alias)))
        for clause in clauses if updates else ():
            if clause.assignments is not None:
                found |= {self.target.resolve(path)[1][0] for path in clause.assignments.columns}
                found |= clause.assignments.old_columns
        return sorted(found)

    def by_source_predicates(self) -> list[Predicate] | None:
        """Conditions on the target, one true of each row that is changed; None if unknown."""
        clauses = self.request.of_kind("not_matched_by_source")
        wheres = [as_predicate(c.where, now=self.target.now) for c in clauses]
        if any(where is None for where in wheres):
            return None
        return [target_predicate(where, self.target) for where in wheres if where is not None]


def choose_clauses(clauses: Sequence[PlannedClause], batch: pa.RecordBatch) -> np.ndarray:
    """Return the index of the first clause that holds for each row; -1 if none does."""
    chosen = np.full(batch.num_rows, -1, np.int8)
    for index, clause in enumerate(clauses):
        holds = chosen < 0
        if clause.where is not None:
            holds &= true_mask(evaluate_rows(clause.where, batch))
        chosen[holds] = index
        if clause.where is None:
            break
    return chosen


def choose_pairs(clauses: Sequence[PlannedClause], pairs: Pairs) -> np.ndarray:
    """Return `choose_clauses` of pairs; their columns are joined only if a condition needs them."""
    if clauses and clauses[0].where is None:
        return np.zeros(len(pairs), np.int8)
    return choose_clauses(clauses, pairs.batch)


def _tops(paths: Iterable[tuple[str, ...]]) -> list[str]:
    return sorted({path[0] for path in paths})


def evolved_definition(
    snapshot: SnapshotState, request: MergeRequest, rows: StructType
) -> TableDefinition:
    """Return the definition with the columns of the source that clauses assign."""
    definition = TableDefinition.of(snapshot)
    if not request.merge_schema:
        return definition
    names: set[str] = set()
    for clause in request.clauses:
        if clause.kind == "not_matched_by_source":
            continue
        if clause.assigned == "*":
            excepted = _excepted(clause, rows, snapshot.schema)
            names |= {name for name in rows.names if name.lower() not in excepted}
        else:
            found = (rows.get(_own_name(key, request)) for key in clause.assigned)
            names |= {field.name for field in found if field is not None}
    new = StructType(tuple(field for field in rows if field.name in names))
    return with_merged_schema(definition, new) if names else definition


def _excepted(clause: MergeClause, *schemas: StructType) -> frozenset[str]:
    """Return the columns that "*" leaves out, in lower case.

    Raises:
        ColumnNotFoundError: No schema has such a column.
    """
    for name in clause.except_columns:
        if all(schema.get(name) is None for schema in schemas):
            names = tuple(known for schema in schemas for known in schema.names)
            raise ColumnNotFoundError("; it is in except_columns", "the source", name, names)
    return frozenset(name.lower() for name in clause.except_columns)


def _own_name(key: str, request: MergeRequest) -> str:
    """Return an assigned column without the alias of the target."""
    prefix = f"{request.target_alias.lower()}."
    return key[len(prefix) :] if key.lower().startswith(prefix) else key


@dataclass(frozen=True, slots=True)
class _Planner:
    """Plans the clauses of one request."""

    old: StructType
    definition: TableDefinition
    pairs: JoinedSchema
    request: MergeRequest

    def clauses(
        self, given: Sequence[MergeClause], scope: JoinedSchema
    ) -> tuple[PlannedClause, ...]:
        return tuple(self._clause(clause, scope) for clause in given)

    def _clause(self, clause: MergeClause, scope: JoinedSchema) -> PlannedClause:
        where = as_predicate(clause.where, now=scope.now)
        assignments = None
        if clause.action != "delete":
            is_update = clause.action == "update"
            assignments = Assignments.plan(
                assigned_columns(clause, self.request, self.definition.schema, self.pairs.source),
                ExpressionScope(schema=scope.schema, bind=scope.bind_expression),
                self.definition,
                old=self.old if is_update else None,
                missing_fields=missing_fields(clause, self.request),
            )
        bound = None if where is None else scope.bind(where)
        return PlannedClause(action=clause.action, where=bound, assignments=assignments)


def missing_fields(clause: MergeClause, request: MergeRequest) -> MissingFields:
    """Return what becomes of nested fields that the source lacks, as in Delta Spark."""
    if not request.merge_schema:
        return "refuse"
    return "keep" if clause.assigned == "*" else "null"


def assigned_columns(
    clause: MergeClause, request: MergeRequest, schema: StructType, source: StructType | None
) -> Mapping[str, Any]:
    """Return the expression of each column; that of "*" is the source's column of its name.

    Args:
        clause: An update or insert.
        request: The request.
        schema: The schema of the table after the operation.
        source: The schema of the source.

    Raises:
        ConfigError: A column is assigned twice.
        ColumnNotFoundError: "*" needs a column that the source does not have, or leaves out one
            that neither side has.
    """
    if not isinstance(clause.assigned, str):
        names = {k: k if schema.get(k) else _own_name(k, request) for k in clause.assigned}
        if len(set(names.values())) < len(names):
            raise ConfigError("set", "assigns a column twice")
        return {names[key]: value for key, value in clause.assigned.items()}
    source = source or StructType(())
    assigned: dict[str, Any] = {}
    excepted = _excepted(clause, schema, source)
    for field in schema:
        if field.name.lower() in excepted:
            continue
        found = source.get(field.name)
        if found is not None and not (clause.action == "update" and is_identity(field)):
            assigned[field.name] = col((request.source_alias, found.name))
        elif found is None and not request.merge_schema and not _is_computed(field):
            cure = '; "*" needs all columns of the table, unless merge_schema=True'
            raise ColumnNotFoundError(cure, "the source", field.name, source.names)
    return assigned


def _is_computed(field: StructField) -> bool:
    return is_identity(field) or GENERATION_EXPRESSION in field.metadata
