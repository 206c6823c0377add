#!/usr/bin/env python3
"""Makes code and pages of api/openapi.yaml and api/config.yaml. Nothing it writes is committed.

generate.py cpp DIR        types.h codecs.cc handlers.h bind.cc: structs, JSON codecs, the Handlers
generate.py config DIR     config.h config.cc: the daemon's Config, its table of settings, the sample
generate.py python FILE    dataclasses of every schema, and the table of operations
generate.py reference DIR  api.md settings.md
"""

# ruff: noqa: E501 - most lines are templates of other languages
from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parent.parent
METHODS = {
    "get": "get",
    "head": "head",
    "put": "put",
    "post": "post",
    "patch": "patch",
    "delete": "del",
    "options": "options",
}
BANNER = "Made by tools/generate.py from api/{}; edit that instead."
Json = dict[str, Any]


def pascal(name: str) -> str:
    return "".join(part.capitalize() for part in re.split(r"[_.]", name))


def quoted(text: str) -> str:
    """`text` as a C++ (and Python, and TOML) string literal."""
    return json.dumps(text, ensure_ascii=False)


# ---------------------------------------------------------------- the model


class Api:
    """openapi.yaml with its references resolved as far as the generators need."""

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
            for method, spec in item.items():
                if method in METHODS:
                    yield Operation(self, path, method, spec, item.get("parameters", []))

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


class Operation:
    def __init__(self, api: Api, path: str, method: str, spec: Json, shared: list[Json]) -> None:
        self.id: str = spec["operationId"]
        self.path, self.method, self.spec = path, method, spec
        self.access: str = spec.get("x-access", "tenant")
        parameters = [api.resolve(p) for p in shared + spec.get("parameters", [])]
        self.parameters = [p for p in parameters if p["in"] in ("path", "query")]
        self.headers = [p for p in parameters if p["in"] == "header"]
        body = api.resolve(spec.get("requestBody", {})).get("content", {})
        self.body_schema: str | None = (
            body["application/json"]["schema"]["$ref"].split("/")[-1]
            if "application/json" in body
            else None
        )
        self.takes_bytes = bool(body) and self.body_schema is None
        self.body_type = next(iter(body), None)
        self.status, answer = next(
            (int(c), api.resolve(r)) for c, r in spec["responses"].items() if str(c).startswith("2")
        )
        content = answer.get("content", {})
        # Answers with headers of their own, or that are not JSON, are written by the handler.
        self.raw = "headers" in answer or (bool(content) and "application/json" not in content)
        self.result: str | None = (
            content["application/json"]["schema"]["$ref"].split("/")[-1]
            if "application/json" in content
            else None
        )

    @property
    def pattern(self) -> str:
        rest = {p["name"] for p in self.parameters if p.get("x-rest")}
        return re.sub(r"\{(\w+)\}", lambda m: f"{{{m[1]}*}}" if m[1] in rest else m[0], self.path)

    @property
    def params_type(self) -> str:
        return pascal(self.id) + "Params"


# ---------------------------------------------------------------- C++: types and codecs


def cpp_type(schema: Json) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].split("/")[-1])
    match schema.get("type"):
        case "string":
            return {"uuid": "Uuid", "date-time": "UnixTime"}.get(
                schema.get("format", ""), "std::string"
            )
        case "integer":
            return "std::uint64_t"
        case "boolean":
            return "bool"
        case "array":
            return f"std::vector<{cpp_type(schema['items'])}>"
        case "object" if "additionalProperties" in schema:
            return f"std::map<std::string, {cpp_type(schema['additionalProperties'])}>"
    raise SystemExit(f"generate.py: no C++ type for {schema}")


def cpp_field(name: str, schema: Json, required: bool) -> str:
    kind = cpp_type(schema)
    if required or kind.startswith(("std::vector", "std::map")):
        plain = {"std::uint64_t": " = 0", "bool": " = false"}.get(
            kind, "{}" if "::" not in kind or kind == "UnixTime" else ""
        )
        return f"  {kind} {name}{plain};"
    if "default" in schema:
        return f"  {kind} {name} = {json.dumps(schema['default'])};"
    return f"  std::optional<{kind}> {name};"


def is_enum(schema: Json) -> bool:
    return "enum" in schema


def cpp_struct(name: str, schema: Json) -> str:
    doc = f"// {schema['description']}\n"
    if is_enum(schema):
        return f"{doc}enum class {name} : std::uint8_t {{ {', '.join(schema['enum'])} }};\n"
    fields = [
        cpp_field(n, p, n in schema.get("required", [])) for n, p in schema["properties"].items()
    ]
    return doc + f"struct {name} {{\n" + "\n".join(fields) + "\n};\n"


def cpp_reader(name: str, schema: Json) -> str:
    head = f"Status read(const boost::json::value& value, const std::string& pointer, {name}& out) {{\n"
    if is_enum(schema):
        names = ", ".join(quoted(v) for v in schema["enum"])
        return head + (
            f"  ASSIGN_OR_RETURN(const std::size_t index, read_name(value, pointer, {{{names}}}));\n"
            f"  out = static_cast<{name}>(index);\n  return {{}};\n}}\n"
        )
    known = ", ".join(quoted(n) for n in schema["properties"])
    lines = [
        f"  ASSIGN_OR_RETURN(const boost::json::object* object, read_object(value, pointer, {{{known}}}));"
    ]
    for field, spec in schema["properties"].items():
        how = "read_required" if field in schema.get("required", []) else "read_optional"
        lines.append(f"  RETURN_IF_ERROR({how}(*object, pointer, {quoted(field)}, out.{field}));")
        if "minimum" in spec or "maximum" in spec:
            low, high = spec.get("minimum", 0), spec.get("maximum", "kIntegerMax")
            lines.append(
                f"  RETURN_IF_ERROR(check_range(pointer, {quoted(field)}, out.{field}, {{{low}, {high}}}));"
            )
    return head + "\n".join(lines) + "\n  return {};\n}\n"


def cpp_writer(name: str, schema: Json) -> str:
    if is_enum(schema):
        cases = "".join(
            f"    case {name}::{v}:\n      return {quoted(v)};\n" for v in schema["enum"]
        )
        return (
            f"std::string_view to_string({name} value) {{\n  switch (value) {{\n{cases}  }}\n  return {{}};\n}}\n\n"
            f"void write(std::string& out, {name} value) {{ write(out, to_string(value)); }}\n"
        )
    lines = ["  ObjectWriter object(out);"]
    lines += [
        f"  object.field({quoted(field)}, value.{field});"
        if field in schema.get("required", [])
        else f"  object.optional_field({quoted(field)}, value.{field});"
        for field in schema["properties"]
    ]
    return f"void write(std::string& out, const {name}& value) {{\n" + "\n".join(lines) + "\n}\n"


def cpp_params(op: Operation) -> tuple[str, str]:
    """The struct of an operation's parameters and the function that fills it."""
    fields, reads = [], []
    for p in op.parameters:
        schema, name = p["schema"], p["name"]
        fields.append(cpp_field(name, schema, p.get("required", False)))
        if p["in"] == "path":
            reads.append(f"  RETURN_IF_ERROR(path_param(request, {quoted(name)}, out.{name}));")
        else:
            how = "required_query" if p.get("required") else "query_param"
            reads.append(f"  RETURN_IF_ERROR({how}(request, {quoted(name)}, out.{name}));")
        if "minimum" in schema or "maximum" in schema:
            reads.append(
                f'  RETURN_IF_ERROR(check_range("?", {quoted(name)}, out.{name}, '
                f"{{{schema.get('minimum', 0)}, {schema.get('maximum', 'kIntegerMax')}}}));"
            )
    known = ", ".join(quoted(p["name"]) for p in op.parameters if p["in"] == "query")
    struct = f"struct {op.params_type} {{\n" + "\n".join(fields) + "\n};\n"
    reader = (
        f"Status read_params(const http::Request& request, {op.params_type}& out) {{\n"
        f"  RETURN_IF_ERROR(known_query(request, {{{known}}}));\n"
        + "\n".join(reads)
        + "\n  return {};\n}\n"
    )
    return struct, reader


def cpp_signature(op: Operation) -> str:
    arguments = "const Call& call"
    if op.parameters:
        arguments += f", const {op.params_type}& params"
    if op.body_schema:
        arguments += f", const {op.body_schema}& body"
    if op.takes_bytes:
        result = "Result<http::Intake>"
    elif op.raw:
        result = "Result<http::Response>"
    else:
        result = f"Result<{op.result}>" if op.result else "Status"
    return f"{result} {op.id}({arguments})"


def cpp_binding(op: Operation) -> str:
    verb, answer, serve = (
        ("take", "http::Intake", "receive")
        if op.takes_bytes
        else ("handle", "http::Response", "serve")
    )
    steps, arguments = [], "call"
    if op.parameters:
        steps.append(
            f"{op.params_type} params;\n      RETURN_IF_ERROR(read_params(call.request, params));"
        )
        arguments += ", params"
    elif not op.takes_bytes:
        steps.append("RETURN_IF_ERROR(known_query(call.request, {}));")
    if op.body_schema:
        steps.append(
            f"{op.body_schema} body;\n      RETURN_IF_ERROR(read_body(call.request, body));"
        )
        arguments += ", body"
    invoke = f"handlers.{op.id}({arguments})"
    steps.append(
        f"return {invoke};"
        if op.takes_bytes or op.raw
        else f"return json_response({op.status}, {invoke});"
    )
    body = "\n      ".join(steps)
    return (
        f"  router.{verb}(http::Method::{METHODS[op.method]}, {quoted(op.pattern)}, [&handlers](http::Request& request) {{\n"
        f"    return {serve}(handlers, request, Access::{op.access}, [&](const Call& call) -> Result<{answer}> {{\n"
        f"      {body}\n    }});\n  }});\n"
    )


def write_cpp(api: Api, out: Path) -> None:
    taken = api.reachable([op.body_schema for op in api.operations if op.body_schema])
    given = api.reachable(
        [op.result for op in api.operations if op.result and not (op.raw and not op.takes_bytes)]
    )
    banner = "// " + BANNER.format("openapi.yaml") + "\n"
    params = [cpp_params(op) for op in api.operations if op.parameters]
    order = api.in_order(taken | given)

    declarations = [cpp_struct(n, api.schemas[n]) for n in order]
    declarations += [
        f"Status read(const boost::json::value& value, const std::string& pointer, {n}& out);"
        for n in order
        if n in taken
    ]
    declarations += [
        f"std::string_view to_string({n} value);\nvoid write(std::string& out, {n} value);"
        if is_enum(api.schemas[n])
        else f"void write(std::string& out, const {n}& value);"
        for n in order
        if n in given
    ]
    emit(
        out / "types.h",
        banner
        + "#pragma once\n\n#include <cstdint>\n#include <map>\n#include <optional>\n#include <string>\n"
        '#include <string_view>\n#include <vector>\n\n#include <boost/json/fwd.hpp>\n\n#include "base/clock.h"\n#include "base/result.h"\n'
        '#include "base/uuid.h"\n\nnamespace onggi::api {\n\n'
        + "\n".join(declarations)
        + "\n\n}  // namespace onggi::api\n",
    )

    codecs = [cpp_reader(n, api.schemas[n]) for n in order if n in taken] + [
        cpp_writer(n, api.schemas[n]) for n in order if n in given
    ]
    emit(
        out / "codecs.cc",
        banner
        + '#include <generated/api/types.h>\n\n#include "api/native/json.h"\n\nnamespace onggi::api {\n\n'
        + "\n".join(codecs)
        + "\n}  // namespace onggi::api\n",
    )

    methods = [
        f"  // {op.method.upper()} {op.path}: {op.spec['summary']}\n  virtual {cpp_signature(op)} = 0;\n"
        for op in api.operations
    ]
    emit(
        out / "handlers.h",
        banner
        + '#pragma once\n\n#include <generated/api/types.h>\n\n#include "api/native/call.h"\n'
        '#include "http/router.h"\n\nnamespace onggi::api {\n\n'
        + "\n".join(s for s, _ in params)
        + "\n// One method for each operation. Thread-safe.\nclass Handlers : public Gatekeeper {\n public:\n"
        + "".join(methods)
        + "};\n\n// Adds every route. `handlers` is borrowed and outlives the router.\n"
        "void bind(http::Router& router, Handlers& handlers);\n\n}  // namespace onggi::api\n",
    )

    # One function per tag keeps functions and their stack frames small.
    tags = {op.spec["tags"][0]: "" for op in api.operations}
    for op in api.operations:
        tags[op.spec["tags"][0]] += cpp_binding(op)
    binders = [
        f"void bind_{tag}(http::Router& router, Handlers& handlers) {{\n{body}}}\n"
        for tag, body in tags.items()
    ]
    calls = "".join(f"  bind_{tag}(router, handlers);\n" for tag in tags)
    emit(
        out / "bind.cc",
        banner
        + '#include <generated/api/handlers.h>\n\n#include "api/native/json.h"\n#include "api/native/serve.h"\n\n'
        "namespace onggi::api {\n\nnamespace {\n\n"
        + "\n".join(r for _, r in params)
        + "\n"
        + "\n".join(binders)
        + "\n}  // namespace\n\nvoid bind(http::Router& router, Handlers& handlers) {\n"
        + calls
        + "}\n\n}  // namespace onggi::api\n",
    )


# ---------------------------------------------------------------- C++: settings


def setting_value(setting: Json) -> str:
    """The default as C++."""
    value = setting["default"]
    if setting["type"] == "strings":
        return "{" + ", ".join(quoted(v) for v in value) + "}"
    return (
        f"{value}U"
        if setting["type"] == "integer" and value > 2**31
        else json.dumps(value, ensure_ascii=False)
    )


SETTING_TYPES = {
    "string": "std::string",
    "integer": "std::uint64_t",
    "boolean": "bool",
    "strings": "std::vector<std::string>",
}


def config_structs(settings: list[Json]) -> str:
    tree: Json = {}
    for setting in settings:
        *sections, field = setting["key"].split(".")
        node = tree
        for section in sections:
            node = node.setdefault(section, {})
        node[field] = setting
    out: list[str] = []

    def struct(name: str, node: Json, last: str = "") -> None:
        lines = []
        for field, entry in node.items():
            if "key" in entry:
                lines.append(f"  {SETTING_TYPES[entry['type']]} {field} = {setting_value(entry)};")
            else:
                struct(
                    pascal(field)
                    + ("" if name == "Config" else name.removesuffix("Config"))
                    + "Config",
                    entry,
                )
                lines.append(
                    f"  {pascal(field)}{'' if name == 'Config' else name.removesuffix('Config')}Config {field};"
                )
        out.append(f"struct {name} {{\n" + "\n".join(lines) + last + "\n};\n")

    struct("Config", tree, "\n  std::vector<VolumeTable> volumes;")
    return "\n".join(out)


def toml_sample(config: Json) -> str:
    lines = ["# Every setting of onggid with its default. Uncomment what you change.\n"]
    section = ""
    for setting in config["settings"]:
        name, _, field = setting["key"].rpartition(".")
        if name != section:
            lines.append(f"\n[{name}]")
            section = name
        values = f" One of {', '.join(setting['values'])}." if "values" in setting else ""
        lines.append(
            f"# {setting['doc']}{values}\n#{field} = {json.dumps(setting['default'], ensure_ascii=False)}"
        )
    for table in config["tables"]:
        lines.append(
            f"\n# {table['doc']}\n"
            + "\n".join("#" + line for line in table["example"].splitlines())
        )
    return "\n".join(lines) + "\n"


def write_config(config: Json, out: Path) -> None:
    banner = "// " + BANNER.format("config.yaml") + "\n"
    rows = []
    for s in config["settings"]:
        values = ", ".join(quoted(v) for v in s.get("values", []))
        rows.append(
            f"      {{{quoted(s['key'])}, {quoted(s['doc'])}, {s.get('min', 0)}U, "
            f"{s.get('max', 2**63 - 1)}U, {{{values}}}, [](Config& config) -> Field {{ return &config.{s['key']}; }}}},"
        )
    emit(
        out / "config.h",
        banner
        + """#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace onggi::daemon {

struct VolumeTable {
  std::string name;
  std::string backend;
  std::map<std::string, std::string> options;
};

"""
        + config_structs(config["settings"])
        + """
using Field = std::variant<std::string*, std::uint64_t*, bool*, std::vector<std::string>*>;

// One setting: how it is called, what it may be and where it is kept.
struct Setting {
  std::string_view key;
  std::string_view doc;
  std::uint64_t min;
  std::uint64_t max;
  std::vector<std::string_view> values;  // of a string; empty: any
  Field (*field)(Config& config);
};

std::vector<Setting> settings();

// onggid.toml with every setting at its default, commented out.
std::string_view sample_toml();

}  // namespace onggi::daemon
""",
    )
    emit(
        out / "config.cc",
        banner
        + "#include <generated/daemon/config.h>\n\nnamespace onggi::daemon {\n\nstd::vector<Setting> settings() {\n  return {\n"
        + "\n".join(rows)
        + "\n  };\n}\n\nstd::string_view sample_toml() {\n  return\n"
        + "\n".join("      " + quoted(line + "\n") for line in toml_sample(config).splitlines())
        + ";\n}\n\n}  // namespace onggi::daemon\n",
    )


# ---------------------------------------------------------------- Python


def python_type(schema: Json) -> str:
    if "$ref" in schema:
        return str(schema["$ref"].split("/")[-1])
    match schema.get("type"):
        case "string":
            return "datetime" if schema.get("format") == "date-time" else "str"
        case "integer":
            return "int"
        case "boolean":
            return "bool"
        case "array":
            return f"list[{python_type(schema['items'])}]"
        case "object" if "additionalProperties" in schema:
            return f"dict[str, {python_type(schema['additionalProperties'])}]"
    return "dict[str, Any]"


def python_decode(schema: Json, value: str, api: Api) -> str:
    if "$ref" in schema:
        name = schema["$ref"].split("/")[-1]
        return value if is_enum(api.schemas[name]) else f"{name}.from_json({value})"
    if schema.get("format") == "date-time":
        return f"_time({value})"
    if schema.get("type") == "array" and "$ref" in schema["items"]:
        return f"[{python_decode(schema['items'], 'item', api)} for item in {value}]"
    return value


def python_class(name: str, schema: Json, api: Api) -> str:
    if is_enum(schema):
        return f"{name} = Literal[{', '.join(quoted(v) for v in schema['enum'])}]\n"
    required = schema.get("required", [])
    first = [n for n in schema["properties"] if n in required]
    fields, decodes = [], []
    for field in first + [n for n in schema["properties"] if n not in required]:
        spec = schema["properties"][field]
        key = f"{field}_" if field in ("from",) else field
        kind = python_type(spec)
        if field in required:
            fields.append(f"    {key}: {kind}")
            decodes.append(
                f"            {key}={python_decode(spec, f'value[{quoted(field)}]', api)},"
            )
            continue
        default = repr(spec["default"]) if "default" in spec else "None"
        fields.append(f"    {key}: {kind}{'' if 'default' in spec else ' | None'} = {default}")
        decode = python_decode(spec, f"value[{quoted(field)}]", api)
        decodes.append(f"            {key}={decode} if {quoted(field)} in value else {default},")
    return (
        f'@dataclass(frozen=True, slots=True)\nclass {name}:\n    """{schema["description"]}"""\n\n'
        + "\n".join(fields)
        + f"\n\n    @classmethod\n    def from_json(cls, value: Mapping[str, Any]) -> {name}:\n        return cls(\n"
        + "\n".join(decodes)
        + "\n        )\n\n    def to_json(self) -> dict[str, Any]:\n        return _to_json(self)\n"
    )


def write_python(api: Api, out: Path) -> None:
    head = f'''"""{BANNER.format("openapi.yaml")}"""

# ruff: noqa: E501
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def _encode(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, list):
        return [_encode(item) for item in value]
    return value.to_json() if hasattr(value, "to_json") else value


def _to_json(value: Any) -> dict[str, Any]:
    pairs = ((field.name.rstrip("_"), getattr(value, field.name)) for field in fields(value))
    return {{name: _encode(item) for name, item in pairs if item is not None}}

'''
    classes = [python_class(n, api.schemas[n], api) for n in api.in_order(set(api.schemas))]
    rows = "".join(
        f"    {quoted(op.id)}: ({quoted(op.method.upper())}, {quoted(op.path)}),\n"
        for op in api.operations
    )
    emit(
        out,
        head
        + "\n"
        + "\n\n".join(classes)
        + "\n\n# Method and path of each operation.\nOPERATIONS: dict[str, tuple[str, str]] = {\n"
        + rows
        + "}\n",
    )


# ---------------------------------------------------------------- reference pages


def write_reference(api: Api, config: Json, out: Path) -> None:
    lines = ["# HTTP API\n", api.document["info"]["description"]]
    for tag in api.document["tags"]:
        lines.append(f"\n## {tag['name']}\n\n{tag['description']}")
        for op in (o for o in api.operations if o.spec["tags"][0] == tag["name"]):
            lines.append(
                f"\n### `{op.method.upper()} {op.path}`\n\n{op.spec['summary']} (`{op.id}`, access: {op.access})\n"
            )
            lines += [op.spec["description"]] if "description" in op.spec else []
            lines += [
                f"- `{p['name']}` ({p['in']}): {p.get('description', '')}"
                for p in op.parameters + op.headers
            ]
            if op.body_type:
                lines.append(
                    f"- body: {f'[{op.body_schema}](#{op.body_schema.lower()})' if op.body_schema else op.body_type}"
                )
            lines.append(
                f"- answer: {op.status}"
                + (f" [{op.result}](#{op.result.lower()})" if op.result else "")
            )
    lines.append("\n## Schemas")
    for name, schema in api.schemas.items():
        lines.append(f"\n### {name}\n\n{schema['description']}\n")
        lines += [f"- `{v}`" for v in schema.get("enum", [])]
        for field, spec in schema.get("properties", {}).items():
            need = "" if field in schema.get("required", []) else ", optional"
            lines.append(
                f"- `{field}` ({python_type(spec)}{need}) {spec.get('description', '')}".rstrip()
            )
    emit(out / "api.md", "\n".join(lines) + "\n")

    rows = [
        "# Settings\n",
        "Each key of `onggid.toml`; the environment variable overrides the file, the command line both.\n",
        "| key | environment | default | what for |",
        "|---|---|---|---|",
    ]
    for s in config["settings"]:
        default = json.dumps(s["default"]) + (f" {s['unit']}" if "unit" in s else "")
        values = f" One of {', '.join(s['values'])}." if "values" in s else ""
        rows.append(
            f"| `{s['key']}` | `ONGGI_{s['key'].upper().replace('.', '_')}` | `{default}` | {s['doc']}{values} |"
        )
    for table in config["tables"]:
        rows.append(f"\n## {table['key']}\n\n{table['doc']}\n\n```toml\n{table['example']}```")
    emit(out / "settings.md", "\n".join(rows) + "\n")


def emit(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main() -> int:
    modes = ("cpp", "config", "python", "reference")
    if len(sys.argv) != 3 or sys.argv[1] not in modes:
        print(__doc__, file=sys.stderr)
        return 2
    api = Api(yaml.safe_load((ROOT / "api/openapi.yaml").read_text()))
    config: Json = yaml.safe_load((ROOT / "api/config.yaml").read_text())
    out = Path(sys.argv[2])
    match sys.argv[1]:
        case "cpp":
            write_cpp(api, out)
        case "config":
            write_config(config, out)
        case "python":
            write_python(api, out)
        case "reference":
            write_reference(api, config, out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
