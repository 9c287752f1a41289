"""The rules of the house that import-linter cannot express (docs/architecture.md).

Each rule is a function from source text to a list of breaches, so that every rule is shown to
catch a breach in a made-up package as well as to hold in ours.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

import lazydelta
from lazydelta import checkpoint, operations

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "lazydelta"

MODULE_LINES = 500
FUNCTION_LINES = 40


@dataclass(frozen=True)
class Module:
    name: str  # dotted: lazydelta.log.segment; a package is its own name, not ...__init__
    is_package: bool
    text: str

    @property
    def tree(self):
        return ast.parse(self.text)

    @property
    def room(self):
        """The part of the name below the package; None for the package's own door."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 else None


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

    A package inside a room (`scan.read`) has a door of its own. Modules of one room import each
    other directly.
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
        f"{module.name}: {lines} lines, the stop is {MODULE_LINES}"
        for module in modules
        if (lines := len(module.text.splitlines())) > MODULE_LINES
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
        f"{module.name}:{node.lineno} {node.name}: {lines} lines, the stop is {FUNCTION_LINES}"
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
    """Only the package's own door imports a room by name: no tool can see such an import."""
    top = modules[0].name.split(".")[0]
    return [
        f"{module.name}:{node.lineno} imports by name"
        for module in modules
        if module.room is not None
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
    """A room that is a folder has an `__init__`, and its `__all__` says what it offers."""
    doors = {module.name: module for module in modules if module.is_package}
    rooms = {module.name.rpartition(".")[0] for module in modules if module.name.count(".") > 1}
    found = [f"{room}: no __init__" for room in sorted(rooms - doors.keys())]
    found += [
        f"{name}: no __all__"
        for name, door in doors.items()
        if not any(
            isinstance(node, ast.Assign)
            and any(
                isinstance(target, ast.Name) and target.id == "__all__" for target in node.targets
            )
            for node in door.tree.body
        )
    ]
    return found


RULES = [
    breaches_of_the_door,
    breaches_of_size,
    breaches_of_function_size,
    breaches_of_docstrings,
    breaches_of_local_imports,
    breaches_of_hidden_imports,
    breaches_of_missing_doors,
]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__.replace("_", "-"))
def test_the_package_keeps(rule):
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
    ],
)
def test_a_rule_catches(tmp_path, rule, files):
    assert not rule(made_up_package(tmp_path / "good", {}))
    assert len(rule(made_up_package(tmp_path / "bad", files))) == 1


def test_what_a_room_may_import(tmp_path):
    text = (
        '"""Plan."""\n'
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
            "scan/plan.py": text + "from p.log.names import parse_name\n",
            "log/names/__init__.py": '"""Names."""\n__all__ = []',
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
    for name, text in (files | changed).items():
        path = where / "p" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return read_package(where / "p")


# --- what `import lazydelta` costs ---------------------------------------------------------------

# pyarrow itself imports cloudpickle where it finds it.
ALLOWED_THIRD_PARTY = {"pyarrow", "numpy", "orjson", "arro3", "cloudpickle"}
NEVER_ON_IMPORT = {
    *("click", "rich", "pandas", "obstore", "polars", "deltalake", "duckdb", "datafusion"),
    *("pyarrow.dataset", "lazydelta.interop"),
    # What writes a table: a reader does not wait for it.
    *(
        "lazydelta.transaction",
        "lazydelta.writer",
        "lazydelta.operations.write",
        "lazydelta.checkpoint.checkpoint_writer",
    ),
}

_LIST_MODULES = """
import json, sys
before = set(sys.modules)
import lazydelta
from lazydelta import checkpoint, operations
lazydelta.Table, lazydelta.Config, lazydelta.col  # public names are loaded on first use
print(json.dumps({
    "file": lazydelta.__file__,
    "loaded": {
        name: getattr(sys.modules[name], "__file__", None) or ""
        for name in set(sys.modules) - before if sys.modules[name] is not None
    },
}))
"""


@pytest.fixture(scope="module")
def loaded_by_import():
    done = subprocess.run(
        [sys.executable, "-c", _LIST_MODULES], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_import_is_of_this_working_tree(loaded_by_import):
    assert Path(loaded_by_import["file"]).is_relative_to(PACKAGE)


def test_import_loads_only_the_allowed_third_party_packages(loaded_by_import):
    third_party = {
        name.split(".")[0]
        for name, file in loaded_by_import["loaded"].items()
        if "site-packages" in file and name.split(".")[0] not in sys.stdlib_module_names
    } - {"lazydelta"}
    assert "pyarrow" in third_party, "nothing was seen to be loaded: the test is blind"
    assert third_party <= ALLOWED_THIRD_PARTY


def test_import_does_not_load_what_belongs_to_one_door(loaded_by_import):
    assert not NEVER_ON_IMPORT & loaded_by_import["loaded"].keys()


@pytest.mark.parametrize("door", [checkpoint, operations], ids=lambda door: door.__name__)
def test_a_door_that_loads_on_demand_has_all_that_it_offers(door):
    assert sorted(door.__all__) == sorted(door._MODULES)
    for name in door.__all__:
        assert getattr(door, name) is getattr(
            sys.modules[f"{door.__name__}.{door._MODULES[name]}"], name
        )
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = door.nonsense


def test_every_public_name_exists_once():
    assert len(set(lazydelta.__all__)) == len(lazydelta.__all__)
    assert [name for name in lazydelta.__all__ if not hasattr(lazydelta, name)] == []
