#!/usr/bin/env python3
"""Refuses an #include that a module's DEPENDS line does not license, files that nobody builds, and
files and folders past the limits."""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"
LINES_MAX = {".h": 400, ".cc": 800}
FILES_MAX = 30  # per folder, without tests: more means two modules
DUMPING_GROUNDS = {"util", "utils", "common", "misc", "helpers", "shared"}

MODULE = re.compile(r"onggi_module\((\w+)\s+([^)]*)\)")
PROGRAM = re.compile(r"onggi_program\((\S+)\s+(\S+_main\.cc)\s+DEPENDS\s+([^)]*)\)")
TEST_PROGRAM = re.compile(r"add_executable\(\w+\s+(\S+_main\.cc)\)")
ADDED = re.compile(r"add_subdirectory\((\S+)\)")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


@dataclass
class Module:
    name: str
    folder: str
    depends: set[str]
    test_depends: set[str]


@dataclass
class Tree:
    modules: dict[str, Module]  # by folder, relative to src/
    programs: dict[str, set[str]]  # what a *_main.cc may include, by path

    @classmethod
    def read(cls) -> Tree:
        tree = cls({}, {})
        for lists in SRC.rglob("CMakeLists.txt"):
            folder = lists.parent.relative_to(SRC).as_posix()
            text = lists.read_text()
            for name, body in MODULE.findall(text):
                depends, _, tests = body.removeprefix("DEPENDS").partition("TEST_DEPENDS")
                tree.modules[folder] = Module(
                    name, folder, set(depends.split()), set(tests.split())
                )
            for main in TEST_PROGRAM.findall(text):
                tree.programs[(Path(folder) / main).as_posix()] = set()
            for _, main, depends in PROGRAM.findall(text):
                tree.programs[(Path(folder) / main).as_posix()] = set(depends.split())
        return tree

    def owner(self, path: str) -> Module | None:
        for parent in Path(path).parents:
            if (module := self.modules.get(parent.as_posix())) is not None:
                return module
        return None

    def licence(self, path: str, module: Module) -> set[str]:
        if path.endswith("_main.cc"):
            return module.depends | self.programs.get(path, set())
        if path.endswith("_test.cc") or Path(path).name.startswith("test_"):
            return module.depends | module.test_depends
        return module.depends


def include_errors(tree: Tree, path: str, text: str, module: Module) -> list[str]:
    errors = []
    for include in INCLUDE.findall(text):
        if include.startswith("generated/"):
            continue
        target = tree.owner(include)
        if target is None or not (SRC / include).exists():
            errors.append(f'{path}: "{include}" is not a path from src/')
        elif target is not module and target.name not in tree.licence(path, module):
            errors.append(f"{path}: includes {include}, but {module.name} does not depend on it")
    return errors


def file_errors(tree: Tree, file: Path) -> list[str]:
    path = file.relative_to(SRC).as_posix()
    module = tree.owner(path)
    if module is None:
        return [f"{path}: belongs to no module"]
    errors = []
    text = file.read_text()
    if (lines := text.count("\n")) > LINES_MAX[file.suffix]:
        errors.append(f"{path}: {lines} lines, the limit is {LINES_MAX[file.suffix]}")
    if path.endswith("_main.cc") and path not in tree.programs:
        errors.append(f"{path}: no onggi_program() builds it")
    if file.stem.endswith(("_fuzz", "_bench")):
        errors.append(f"{path}: nothing builds it here; it belongs in fuzz/ or bench/")
    if file.suffix == ".cc" and file.parent != SRC / module.folder:
        errors.append(f"{path}: no onggi_module() in its folder builds it")
    return errors + include_errors(tree, path, text, module)


def folder_errors(folder: Path) -> list[str]:
    name = folder.relative_to(SRC).as_posix()
    errors = []
    if folder.name in DUMPING_GROUNDS:
        errors.append(f"{name}: the name says nothing; name what it holds")
    files = [f for f in folder.iterdir() if f.suffix == ".cc" and not f.stem.endswith("_test")]
    if len(files) > FILES_MAX:
        errors.append(f"{name}: {len(files)} sources, the limit is {FILES_MAX}")
    return errors


def unbuilt_modules(tree: Tree) -> list[str]:
    """A module that the root does not add is tested by nobody."""
    added = set(ADDED.findall((SRC.parent / "CMakeLists.txt").read_text()))
    return [
        f"{folder}: the root CMakeLists.txt does not add it"
        for folder in tree.modules
        if f"src/{folder}" not in added
    ]


def main() -> int:
    tree = Tree.read()
    errors = unbuilt_modules(tree)
    for path in sorted(SRC.rglob("*")):
        if path.is_dir():
            errors += folder_errors(path)
        elif path.suffix in LINES_MAX:
            errors += file_errors(tree, path)
    print(*errors, sep="\n", end="\n" if errors else "")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(main())
