"""Architecture rules that import-linter cannot express (docs/architecture.md).

Each rule is a function from modules to a list of breaches. Every rule is tested on a made-up
package with a breach, and on ours.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "lazydelta"

MODULE_LINES = 500
FUNCTION_LINES = 40
DOOR_NAMES = 16

DOORS_WITHOUT_LIMIT = {
    "errors": "every error a caller can catch",
    "testing": "suites and builders for implementers",
    "expressions.nodes": "a class for each node of the tree",
    "spark": "the operations of the package, on Spark",
}

# Command modules (cli) and error modules (errors) are named after the room or operation they serve.
ROOMS_WITH_SHARED_BASENAMES = {"cli", "errors"}
SHARED_BASENAMES = {
    "tuning": "the numbers that tune a room",
    "changes": "the change feed, and the same on Spark",
    "config": "the settings of the engine, and those of a server",
    "checkpoint": "checkpoints, and the same on Spark",
    "read": "reading rows, and the same on Spark",
    "write": "writing rows, and the same on Spark",
    "dml": "the verbs that change rows, and the same on Spark",
    "delete": "DELETE, and the same on Spark",
    "update": "UPDATE, and the same on Spark",
    "merge": "MERGE, and the same on Spark",
    "maintenance": "the verbs that maintain tables, and the same on Spark",
    "optimize": "OPTIMIZE, and the same on Spark",
    "restore": "RESTORE, and the same on Spark",
    "vacuum": "VACUUM, and the same on Spark",
    "request": "what a caller wants to write, and what a client wants to read",
    "retry": "retry with backoff, of store requests and of commits",
}

# A number whose name has one of these words tunes something. Constants of a format do not have them.
TUNING_WORDS = {
    *("ROWS", "BYTES", "FILES", "COMMITS", "SECONDS", "THREADS", "TASKS", "TRIES", "AHEAD"),
    *("ONCE", "WORTH", "FEW", "MOST", "SMALL"),
}
ROOMS_WITHOUT_TUNING_RULE = {"cli", "errors", "testing"}
TUNING_TO_MOVE = {
    *("changes", "checkpoint", "expr", "formats", "interop", "log", "operations", "parquet"),
    *("replay", "scan", "schema", "snapshot", "spark", "store", "transaction", "writer"),
}


@dataclass(frozen=True)
class Module:
    name: str  # dotted: lazydelta.log.segment; a package is its own name, not ...__init__
    is_package: bool
    source: str

    @cached_property
    def tree(self):
        return ast.parse(self.source)

    @property
    def room(self):
        """The part of the name below the package; None for the package's own door."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else None


@cache
def read_package(package: Path) -> list[Module]:
    modules = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        is_package = parts[-1] == "__init__"
        name = ".".join(parts[:-1] if is_package else parts)
        modules.append(Module(name, is_package, path.read_text(encoding="utf-8")))
    return modules


def imported_names(module: Module, tree: ast.AST):
    """Yield (line, dotted name) for every import, relative ones made absolute."""
    base = module.name.split(".")
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            up = node.level - (1 if module.is_package else 0) if node.level else 0
            prefix = base[: len(base) - up] if node.level else []
            source = ".".join([*prefix, *([node.module] if node.module else [])])
            yield from ((node.lineno, f"{source}.{alias.name}") for alias in node.names)


def breaches_of_the_door(modules: list[Module]) -> list[str]:
    """Other rooms import from a package's `__init__`, never from a module inside it.

    A package inside a room (`scan.read`) is a door too. Modules of one room import each other
    directly.
    """
    names = {module.name for module in modules} | {
        module.name.rpartition(".")[0] for module in modules
    }
    packages = {module.name for module in modules if module.is_package}
    top = next(module.name for module in modules if module.room is None)
    found = []
    for module in modules:
        for line, name in imported_names(module, module.tree):
            if name != top and not name.startswith(f"{top}."):
                continue
            parts = name.split(".")
            room = parts[1] if len(parts) > 1 else None
            where = f"{module.name}:{line} imports {name}"
            source = next(  # the module or package that the name is imported from
                dotted
                for end in range(len(parts), 0, -1)
                if (dotted := ".".join(parts[:end])) in names
            )
            is_module = source.count(".") > 1 and source not in packages
            if source == top:
                if module.room not in (None, "__main__"):
                    found.append(f"{where}: rooms never import the package's own door")
            elif room != module.room and is_module:
                found.append(f"{where}: use the door, {source.rpartition('.')[0]}")
            elif source in packages and module.name.startswith(f"{source}."):
                found.append(f"{where}: inside a room, import the module that has it")
    return found


def breaches_of_size(modules: list[Module]) -> list[str]:
    return [
        f"{module.name}: {lines} lines, the limit is {MODULE_LINES}"
        for module in modules
        if (lines := len(module.source.splitlines())) > MODULE_LINES
    ]


def code_lines(function) -> int:
    """Count a function's lines from its signature to its end, without the docstring."""
    body = function.body
    lines = (function.end_lineno or function.lineno) - function.lineno + 1
    if ast.get_docstring(function, clean=False) is not None:
        lines -= body[0].end_lineno - body[0].lineno + 1
    return lines


def breaches_of_function_size(modules: list[Module]) -> list[str]:
    return [
        f"{module.name}:{node.lineno} {node.name}: {lines} lines, the limit is {FUNCTION_LINES}"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (lines := code_lines(node)) > FUNCTION_LINES
    ]


def breaches_of_docstrings(modules: list[Module]) -> list[str]:
    return [module.name for module in modules if not ast.get_docstring(module.tree)]


def breaches_of_local_imports(modules: list[Module]) -> list[str]:
    """Our own modules are imported at the top: a local import would only hide a cycle."""
    top = modules[0].name.split(".")[0]
    return [
        f"{module.name}:{line} imports {name} inside {node.name}()"
        for module in modules
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for line, name in imported_names(module, node)
        if name.split(".")[0] == top
    ]


def breaches_of_hidden_imports(modules: list[Module]) -> list[str]:
    """Only the package's own door imports a room by name: no tool can see such an import.

    `_lazy` imports modules of the door that calls it, which its TYPE_CHECKING block shows to tools.
    """
    top = modules[0].name.split(".")[0]
    return [
        f"{module.name}:{node.lineno} imports by name"
        for module in modules
        if module.room not in (None, "_lazy")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Call)
        and ast.unparse(node.func).rpartition(".")[2] in ("import_module", "__import__")
        and may_be_of(top, node.args[0])
    ]


def may_be_of(package: str, name: ast.expr) -> bool:
    """Whether an expression may name a module of the package that is not of the same room."""
    if isinstance(name, ast.Constant):
        return str(name.value).split(".")[0] == package
    return not ast.unparse(name).startswith(("f'{__package__}.", 'f"{__package__}.'))


def breaches_of_missing_doors(modules: list[Module]) -> list[str]:
    """A package has an `__init__` with an `__all__`."""
    doors = {module.name: module for module in modules if module.is_package}
    rooms = {module.name.rpartition(".")[0] for module in modules if module.name.count(".") > 1}
    found = [f"{room}: no __init__" for room in sorted(rooms - doors.keys())]
    return found + [f"{name}: no __all__" for name, door in doors.items() if exports(door) is None]


def exports(door: Module) -> list[str] | None:
    """Return the names in `__all__`; None without one."""
    for node in door.tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [ast.unparse(name) for name in getattr(node.value, "elts", [])]
    return None


def breaches_of_door_size(modules: list[Module]) -> list[str]:
    return [
        f"{module.name}: {count} names in __all__, the limit is {DOOR_NAMES}"
        for module in modules
        if module.is_package
        and module.room is not None
        and module.name.partition(".")[2] not in DOORS_WITHOUT_LIMIT
        and (count := len(exports(module) or [])) > DOOR_NAMES
    ]


def breaches_of_basenames(modules: list[Module]) -> list[str]:
    """A module or package name means one thing: it occurs in one room only."""
    rooms: dict[str, set[str]] = {}
    for module in modules:
        if module.room is not None and module.room not in ROOMS_WITH_SHARED_BASENAMES:
            rooms.setdefault(module.name.rpartition(".")[2], set()).add(module.room)
    return [
        f"{name}: in the rooms {', '.join(sorted(found))}"
        for name, found in rooms.items()
        if len(found) > 1 and name not in SHARED_BASENAMES
    ]


def breaches_of_tuning(modules: list[Module]) -> list[str]:
    """Numbers that tune a room are in its `tuning` module, each with its reason."""
    return [
        f"{module.name}:{node.lineno} {name}: move it to {module.room}.tuning"
        for module in modules
        if module.name.count(".") > 1
        and module.name.rpartition(".")[2] != "tuning"
        and module.room not in ROOMS_WITHOUT_TUNING_RULE | TUNING_TO_MOVE
        for node in module.tree.body
        if isinstance(node, ast.Assign)
        and is_number(node.value)
        and (name := ast.unparse(node.targets[0])).isupper()
        and TUNING_WORDS & set(name.split("_"))
    ]


def is_number(value: ast.expr) -> bool:
    """Whether an expression is a number, or arithmetic on numbers."""
    if isinstance(value, ast.BinOp):
        return is_number(value.left) and is_number(value.right)
    return isinstance(value, ast.Constant) and type(value.value) in (int, float)


RULES = [
    breaches_of_the_door,
    breaches_of_size,
    breaches_of_function_size,
    breaches_of_docstrings,
    breaches_of_local_imports,
    breaches_of_hidden_imports,
    breaches_of_missing_doors,
    breaches_of_door_size,
    breaches_of_basenames,
    breaches_of_tuning,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__.replace("_", "-"))
def test_the_package_follows(rule):
    modules = read_package(PACKAGE)
    assert len(modules) > 10, "the package was not found"
    breaches = rule(modules)
    assert not breaches, "\n" + "\n".join(breaches)


@pytest.mark.parametrize(
    ("rule", "files"),
    [
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "from p.log.segment import LogSegment"},
            id="a-name-from-inside-another-room",
        ),
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "from p.log import segment"},
            id="a-module-of-another-room",
        ),
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "import p.log.segment"},
            id="a-plain-import-of-a-module-of-another-room",
        ),
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "from ..log.segment import LogSegment"},
            id="a-relative-import-into-another-room",
        ),
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "from p.log.nodes.tree import Node"},
            id="a-module-of-a-sub-package",
        ),
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "from p.log.nodes import tree"},
            id="a-module-of-a-sub-package-by-its-door",
        ),
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "from p import Table"},
            id="the-packages-own-door",
        ),
        pytest.param(
            breaches_of_the_door,
            {"scan/plan.py": "from p.scan import rows"},
            id="the-rooms-own-door",
        ),
        pytest.param(
            breaches_of_the_door,
            {
                "log/names/__init__.py": '"""Names."""\n__all__ = []',
                "log/names/parse.py": '"""Parse."""',
                "scan/plan.py": "from p.log.names.parse import parse_name",
            },
            id="a-module-of-a-package-inside-another-room",
        ),
        pytest.param(
            breaches_of_size,
            {"scan/plan.py": "x = 1\n" * (MODULE_LINES + 1)},
            id="a-module-that-is-too-long",
        ),
        pytest.param(
            breaches_of_function_size,
            {"scan/plan.py": "def f():\n" + "    x = 1\n" * FUNCTION_LINES},
            id="a-function-that-is-too-long",
        ),
        pytest.param(
            breaches_of_docstrings,
            {"scan/plan.py": "x = 1"},
            id="a-module-without-a-docstring",
        ),
        pytest.param(
            breaches_of_local_imports,
            {"scan/plan.py": "def f():\n    from p.log import LogSegment"},
            id="a-local-import-of-our-own",
        ),
        pytest.param(
            breaches_of_hidden_imports,
            {"scan/plan.py": "import importlib\nx = importlib.import_module('p.table')"},
            id="an-import-by-name",
        ),
        pytest.param(
            breaches_of_hidden_imports,
            {"scan/plan.py": "x = __import__('p.table')"},
            id="an-import-by-the-builtin",
        ),
        pytest.param(
            breaches_of_hidden_imports,
            {"scan/plan.py": "def f(name):\n    return import_module(name)"},
            id="an-import-by-a-name-that-is-not-known",
        ),
        pytest.param(
            breaches_of_missing_doors,
            {"scan/__init__.py": '"""Scan."""'},
            id="a-door-that-does-not-say-what-it-offers",
        ),
        pytest.param(
            breaches_of_missing_doors,
            {"hall/way.py": '"""Way."""'},
            id="a-room-without-a-door",
        ),
        pytest.param(
            breaches_of_door_size,
            {"scan/__init__.py": f'"""Scan."""\n__all__ = {["x"] * (DOOR_NAMES + 1)}'},
            id="a-door-with-too-many-names",
        ),
        pytest.param(
            breaches_of_basenames,
            {"scan/segment.py": '"""Segment."""'},
            id="a-module-name-in-two-rooms",
        ),
        pytest.param(
            breaches_of_basenames,
            {"log/plan/__init__.py": '"""Plan."""\n__all__ = []'},
            id="a-package-named-as-a-module-of-another-room",
        ),
        pytest.param(
            breaches_of_tuning,
            {"hall/way.py": '"""Way."""\n_BLOCK_BYTES = 1 << 20'},
            id="a-tuning-number-outside-tuning",
        ),
    ],
)
def test_a_rule_finds_a_breach(tmp_path, rule, files):
    assert not rule(made_up_package(tmp_path / "good", {}))
    assert len(rule(made_up_package(tmp_path / "bad", files))) == 1


def test_valid_code_has_no_breach(tmp_path):
    source = (
        '"""Plan."""\n'
        "_MAGIC = 6\n"
        "import pyarrow.parquet\n"
        "from p import errors\n"
        "from p.errors import Bad\n"
        "from p.log import LogSegment\n"
        "from p.log.nodes import Node\n"
        "from p.scan.read import rows\n"
        "from .read import rows\n"
        "def f():\n"
        '    """Have a docstring\n'
        + "    of many lines\n" * FUNCTION_LINES
        + '    """\n'
        + "    import rich\n"
        + "    import_module('rich.table')\n"
        + "    import_module(f'{__package__}.read')\n"
    )
    modules = made_up_package(
        tmp_path,
        {
            "scan/plan.py": source + "from p.log.names import parse_name\n",
            "log/names/__init__.py": '"""Names."""\n__all__ = []',
            "log/tuning.py": '"""Tuning."""\nBLOCK_BYTES = 1 << 20',
            "scan/tuning.py": '"""Tuning."""\nPREFETCH_ROWS = 1024',
            "cli/table.py": '"""Command."""',
            "cli/__init__.py": '"""Commands."""\n__all__ = []',
        },
    )
    assert [breach for rule in RULES for breach in rule(modules)] == []


def made_up_package(where: Path, changed: dict[str, str]) -> list[Module]:
    files = {
        "__init__.py": '"""P."""\nfrom p.table import Table\n__all__ = ["Table"]',
        "errors.py": '"""Errors."""\nclass Bad(Exception): pass',
        "table.py": '"""Table."""\nfrom p.scan import rows\nclass Table: pass',
        "log/__init__.py": (
            '"""Log."""\nfrom p.log.segment import LogSegment\n__all__ = ["LogSegment"]'
        ),
        "log/segment.py": '"""Segment."""\nclass LogSegment: pass',
        "log/nodes/__init__.py": '"""Nodes."""\nfrom p.log.nodes.tree import Node\n__all__ = ["Node"]',
        "log/nodes/tree.py": '"""Tree."""\nclass Node: pass',
        "scan/__init__.py": '"""Scan."""\nfrom p.scan.read import rows\n__all__ = ["rows"]',
        "scan/plan.py": '"""Plan."""',
        "scan/read.py": '"""Read."""\nfrom p.log import LogSegment\ndef rows(): pass',
    }
    for name, source in (files | changed).items():
        path = where / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return read_package(where / "p")
