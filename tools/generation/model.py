"""openapi.yaml as the generators see it, and what all of them need."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

METHODS = ("get", "head", "put", "post", "patch", "delete", "options")
Json = dict[str, Any]


def banner(source: str) -> str:
    return f"Made by tools/generate.py from api/{source}; edit that instead."


def pascal(name: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[_.]", name))


def quoted(value: Any) -> str:
    """A string, number, boolean or list as it stands in C++, Python, TOML and JSON alike."""
    return json.dumps(value, ensure_ascii=False)


def fill(template: str, **values: str) -> str:
    """`template` with each @name@ replaced: the languages that we write are full of braces."""
    return re.sub(r"@(\w+)@", lambda found: values[found[1]], template)


def emit(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def is_enum(schema: Json) -> bool:
    return "enum" in schema


def ref_name(schema: Json) -> str:
    return str(schema["$ref"].rsplit("/", 1)[-1])


class Operation:
    """One method of one path."""

    def __init__(self, api: Api, path: str, method: str, spec: Json, shared: list[Json]) -> None:
        self.path, self.method, self.spec = path, method, spec
        self.id: str = spec["operationId"]
        self.tag: str = spec["tags"][0]
        self.access: str = spec.get("x-access", "tenant")
        parameters = [api.resolve(p) for p in shared + spec.get("parameters", [])]
        self.parameters = [p for p in parameters if p["in"] != "header"]
        self.headers = [p for p in parameters if p["in"] == "header"]

        body = spec.get("requestBody", {}).get("content", {})
        self.body_type = next(iter(body), None)
        is_json = "application/json" in body
        self.body = ref_name(body["application/json"]["schema"]) if is_json else None
        self.takes_bytes = bool(body) and not is_json

        code, answer = next(item for item in spec["responses"].items() if item[0].startswith("2"))
        content = answer.get("content", {})
        is_json = "application/json" in content
        self.status = int(code)
        self.result = ref_name(content["application/json"]["schema"]) if is_json else None
        # The handler writes answers that have headers of their own or that are not JSON.
        self.raw = "headers" in answer or (bool(content) and not is_json)

    @property
    def pattern(self) -> str:
        """The path as the router has it: {path*} takes the rest."""
        rest = {p["name"] for p in self.parameters if p.get("x-rest")}
        return re.sub(r"\{(\w+)\}", lambda m: f"{{{m[1]}*}}" if m[1] in rest else m[0], self.path)


class Api:
    """The document, its operations and its schemas."""

    def __init__(self, document: Json) -> None:
        self.document = document
        self.schemas: Json = document["components"]["schemas"]
        self.operations = list(self._operations())

    def resolve(self, node: Json) -> Json:
        if "$ref" not in node:
            return node
        found: Any = self.document
        for part in node["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        return self.resolve(found)

    def _operations(self) -> Iterator[Operation]:
        for path, item in self.document["paths"].items():
            for method in METHODS:
                if method in item:
                    yield Operation(self, path, method, item[method], item.get("parameters", []))

    def reachable(self, roots: list[str]) -> set[str]:
        """The schemas that those named `roots` are made of, themselves included."""
        seen: set[str] = set()
        while roots:
            name = roots.pop()
            if name not in seen:
                seen.add(name)
                roots += re.findall(r"#/components/schemas/(\w+)", json.dumps(self.schemas[name]))
        return seen

    def in_order(self, names: set[str]) -> list[str]:
        """`names`, each after those it is made of."""
        done: list[str] = []

        def visit(name: str) -> None:
            for other in sorted(self.reachable([name]) - {name}):
                if other not in done:
                    visit(other)
            if name not in done:
                done.append(name)

        for name in self.schemas:
            if name in names:
                visit(name)
        return done
