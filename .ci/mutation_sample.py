"""Change one place of the package at a time and see whether a test notices.

`python .ci/mutation_sample.py --seed N --mutants M` works in a copy of the tree. A mutant that no
test of its folder notices is printed with its line; more than one in five of them is a failure.
"""

from __future__ import annotations

import argparse
import ast
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
PATIENCE = 600  # seconds for the tests of one mutant
SURVIVORS = 0.2
SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
    ast.And: ast.Or, ast.Or: ast.And, ast.Add: ast.Sub, ast.Sub: ast.Add,
}  # fmt: skip


def is_mutable(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, bool)
    return isinstance(node, ast.If | ast.Compare | ast.BoolOp | ast.BinOp)


def places(tree: ast.Module) -> list[ast.AST]:
    """List the nodes that can be mutated, those inside functions only."""
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    inside = (function for function in ast.walk(tree) if isinstance(function, functions))
    return [node for function in inside for node in ast.walk(function) if is_mutable(node)]


def mutate(node: ast.AST) -> bool:
    """Change the node in place; return False if it has no mutation."""
    match node:
        case ast.If():
            node.test = ast.UnaryOp(ast.Not(), node.test)
        case ast.Compare(ops=[operator]) if type(operator) in SWAPPED:
            node.ops = [SWAPPED[type(operator)]()]
        case ast.BoolOp() | ast.BinOp() if type(node.op) in SWAPPED:
            node.op = SWAPPED[type(node.op)]()
        case ast.Constant(value=bool()):
            node.value = not node.value
        case ast.Constant():
            node.value += 1
        case _:
            return False
    return True


def tests_of(module: pathlib.Path) -> list[str]:
    """Return the nearest folder of tests with the module's name or its package's."""
    parts = module.relative_to(ROOT / "pytest_kscen").with_suffix("").parts
    for length in range(len(parts), 0, -1):
        folder = ROOT.joinpath("tests", *parts[:length])
        if folder.is_dir():
            return [str(folder.relative_to(ROOT)), "tests/determinism/test_same_seed.py"]
    return ["tests"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="0")
    parser.add_argument("--mutants", type=int, default=20)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    modules = [
        path
        for path in sorted((ROOT / "pytest_kscen").rglob("*.py"))
        if places(ast.parse(path.read_text()))
    ]
    survivors: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "tree"
        shutil.copytree(
            ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv", ".*_cache", "__pycache__")
        )
        for number in range(1, options.mutants + 1):
            module = draw.choice(modules)
            tree = ast.parse(module.read_text())
            node = draw.choice(places(tree))
            line = getattr(node, "lineno", 0)
            if not mutate(node):
                continue
            target = copy / module.relative_to(ROOT)
            target.write_text(ast.unparse(ast.fix_missing_locations(tree)))
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-x",
                "-p",
                "no:cacheprovider",
                *tests_of(module),
            ]
            try:
                done = subprocess.run(
                    command,
                    cwd=copy,
                    capture_output=True,
                    timeout=PATIENCE,
                    check=False,
                    env=environment(copy),
                )
                noticed = done.returncode != 0
            except subprocess.TimeoutExpired:
                noticed = True
            where = f"{module.relative_to(ROOT)}:{line}"
            print(
                f"{number}/{options.mutants} {'noticed ' if noticed else 'SURVIVED'} {where}",
                flush=True,
            )
            if not noticed:
                survivors.append(where)
            shutil.copyfile(module, target)
    print(f"{len(survivors)} of {options.mutants} mutants survived:", *survivors)
    return int(len(survivors) > SURVIVORS * options.mutants)


def environment(copy: pathlib.Path) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(copy)}


if __name__ == "__main__":
    sys.exit(main())
