"""C++ of openapi.yaml: structs, strict JSON codecs, the abstract Handlers and their routes."""

from __future__ import annotations

from pathlib import Path

from .model import Api, Json, Operation, banner, emit, fill, is_enum, pascal, quoted, ref_name

TYPES_H = """\
// @banner@
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/fwd.hpp>

#include "base/clock.h"
#include "base/result.h"
#include "base/uuid.h"

namespace onggi::api {

@structs@
// Strict: a missing, unknown or mistyped field is invalid_argument that names its JSON pointer.
@readers@

@writers@

}  // namespace onggi::api
"""

CODECS_CC = """\
// @banner@
#include <generated/api/types.h>

#include "api/native/json.h"

namespace onggi::api {

@codecs@
}  // namespace onggi::api
"""

HANDLERS_H = """\
// @banner@
#pragma once

#include <generated/api/types.h>

#include "api/native/call.h"
#include "http/router.h"

namespace onggi::api {

@params@
// One method for each operation: a missing one does not compile. Thread-safe.
class Handlers : public Gatekeeper {
 public:
@methods@};

// Adds every route. `handlers` is borrowed and outlives the router.
void bind(http::Router& router, Handlers& handlers);

}  // namespace onggi::api
"""

BIND_CC = """\
// @banner@
#include <generated/api/handlers.h>

#include "api/native/json.h"
#include "api/native/serve.h"

namespace onggi::api {

namespace {

@params@
@binders@
}  // namespace

void bind(http::Router& router, Handlers& handlers) {
@calls@}

}  // namespace onggi::api
"""

READER = """\
Status read(const boost::json::value& value, const std::string& pointer, @name@& out) {
  ASSIGN_OR_RETURN(const boost::json::object* object, read_object(value, pointer, {@known@}));
@fields@
  return {};
}
"""

ENUM_READER = """\
Status read(const boost::json::value& value, const std::string& pointer, @name@& out) {
  ASSIGN_OR_RETURN(const std::size_t index, read_name(value, pointer, {@known@}));
  out = static_cast<@name@>(index);
  return {};
}
"""

WRITER = """\
void write(std::string& out, const @name@& value) {
  ObjectWriter object(out);
@fields@
}
"""

ENUM_WRITER = """\
std::string_view to_string(@name@ value) {
  switch (value) {
@cases@
  }
  return {};
}

void write(std::string& out, @name@ value) { write(out, to_string(value)); }
"""

PARAMS_READER = """\
Status read_params(const http::Request& request, @name@& out) {
  RETURN_IF_ERROR(known_query(request, {@known@}));
@fields@
  return {};
}
"""

BINDING = """\
  router.@verb@(http::Method::@method@, @pattern@, [&handlers](http::Request& request) {
    return @serve@(handlers, request, Access::@access@, [&](const Call& call) -> Result<@answer@> {
@steps@
    });
  });
"""


def cpp_type(schema: Json) -> str:
    if "$ref" in schema:
        return ref_name(schema)
    match schema.get("type"):
        case "string":
            known = {"uuid": "Uuid", "date-time": "UnixTime"}
            return known.get(schema.get("format", ""), "std::string")
        case "integer":
            return "std::uint64_t"
        case "boolean":
            return "bool"
        case "array":
            return f"std::vector<{cpp_type(schema['items'])}>"
        case "object" if "additionalProperties" in schema:
            return f"std::map<std::string, {cpp_type(schema['additionalProperties'])}>"
    raise SystemExit(f"generate.py: no C++ type for {schema}")


def member(name: str, schema: Json, required: bool) -> str:
    kind = cpp_type(schema)
    if "default" in schema and not required:
        return f"  {kind} {name} = {quoted(schema['default'])};"
    if not required and not kind.startswith(("std::vector", "std::map")):
        return f"  std::optional<{kind}> {name};"
    initial = {"std::uint64_t": " = 0", "bool": " = false"}
    return f"  {kind} {name}{initial.get(kind, '' if kind.startswith('std::') else '{}')};"


def struct(name: str, schema: Json) -> str:
    doc = f"// {schema['description']}\n"
    if is_enum(schema):
        return f"{doc}enum class {name} : std::uint8_t {{ {', '.join(schema['enum'])} }};\n"
    required = schema.get("required", [])
    members = [
        member(field, spec, field in required) for field, spec in schema["properties"].items()
    ]
    return f"{doc}struct {name} {{\n" + "\n".join(members) + "\n};\n"


def range_check(pointer: str, name: str, schema: Json) -> list[str]:
    if not {"minimum", "maximum"} & schema.keys():
        return []
    bounds = f"{schema.get('minimum', 0)}, {schema.get('maximum', 'kIntegerMax')}"
    arguments = f"{pointer}, {quoted(name)}, out.{name}, {{{bounds}}}"
    return [f"  RETURN_IF_ERROR(check_range({arguments}));"]


def reader(name: str, schema: Json) -> str:
    if is_enum(schema):
        return fill(ENUM_READER, name=name, known=", ".join(map(quoted, schema["enum"])))
    lines = []
    for field, spec in schema["properties"].items():
        how = "required" if field in schema.get("required", []) else "optional"
        arguments = f"*object, pointer, {quoted(field)}, out.{field}"
        lines.append(f"  RETURN_IF_ERROR(read_{how}({arguments}));")
        lines += range_check("pointer", field, spec)
    known = ", ".join(map(quoted, schema["properties"]))
    return fill(READER, name=name, known=known, fields="\n".join(lines))


def writer(name: str, schema: Json) -> str:
    if is_enum(schema):
        cases = [f"    case {name}::{v}:\n      return {quoted(v)};" for v in schema["enum"]]
        return fill(ENUM_WRITER, name=name, cases="\n".join(cases))
    lines = []
    for field in schema["properties"]:
        how = "field" if field in schema.get("required", []) else "optional_field"
        lines.append(f"  object.{how}({quoted(field)}, value.{field});")
    return fill(WRITER, name=name, fields="\n".join(lines))


def writer_declaration(name: str, schema: Json) -> str:
    if not is_enum(schema):
        return f"void write(std::string& out, const {name}& value);"
    text = f"std::string_view to_string({name} value);\n"
    return text + f"void write(std::string& out, {name} value);"


def params_name(op: Operation) -> str:
    return pascal(op.id) + "Params"


def params_struct(op: Operation) -> str:
    members = [member(p["name"], p["schema"], p.get("required", False)) for p in op.parameters]
    return f"struct {params_name(op)} {{\n" + "\n".join(members) + "\n};\n"


def params_reader(op: Operation) -> str:
    lines = []
    for p in op.parameters:
        how = "required_query" if p.get("required") else "query_param"
        if p["in"] == "path":
            how = "path_param"
        name = p["name"]
        lines.append(f"  RETURN_IF_ERROR({how}(request, {quoted(name)}, out.{name}));")
        lines += range_check('"?"', name, p["schema"])
    known = ", ".join(quoted(p["name"]) for p in op.parameters if p["in"] == "query")
    return fill(PARAMS_READER, name=params_name(op), known=known, fields="\n".join(lines))


def handler(op: Operation) -> str:
    arguments = "const Call& call"
    if op.parameters:
        arguments += f", const {params_name(op)}& params"
    if op.body:
        arguments += f", const {op.body}& body"
    result = f"Result<{op.result}>" if op.result else "Status"
    if op.takes_bytes:
        result = "Result<http::Intake>"
    elif op.raw:
        result = "Result<http::Response>"
    comment = f"  // {op.method.upper()} {op.path}: {op.spec['summary']}\n"
    return f"{comment}  virtual {result} {op.id}({arguments}) = 0;\n"


def binding(op: Operation) -> str:
    steps, arguments = [], "call"
    if op.parameters:
        steps += [
            f"{params_name(op)} params;",
            "RETURN_IF_ERROR(read_params(call.request, params));",
        ]
        arguments += ", params"
    else:
        steps.append("RETURN_IF_ERROR(known_query(call.request, {}));")
    if op.body:
        steps += [f"{op.body} body;", "RETURN_IF_ERROR(read_body(call.request, body));"]
        arguments += ", body"
    answer = f"handlers.{op.id}({arguments})"
    if not (op.takes_bytes or op.raw):
        answer = f"json_response({op.status}, {answer})"
    steps.append(f"return {answer};")
    return fill(
        BINDING,
        verb="take" if op.takes_bytes else "handle",
        method="del" if op.method == "delete" else op.method,
        pattern=quoted(op.pattern),
        serve="receive" if op.takes_bytes else "serve",
        access=op.access,
        answer="http::Intake" if op.takes_bytes else "http::Response",
        steps="\n".join(f"      {step}" for step in steps),
    )


def write_types(api: Api, out: Path) -> None:
    # What handlers write themselves they do with these codecs too: Entry, ArchiveResult.
    taken = api.reachable([op.body for op in api.operations if op.body])
    given = api.reachable([op.result for op in api.operations if op.result])
    order = [(name, api.schemas[name]) for name in api.in_order(taken | given)]
    readers = [
        f"Status read(const boost::json::value& value, const std::string& pointer, {name}& out);"
        for name, _ in order
        if name in taken
    ]
    writers = [writer_declaration(*item) for item in order if item[0] in given]
    codecs = [reader(*item) for item in order if item[0] in taken]
    codecs += [writer(*item) for item in order if item[0] in given]
    note = banner("openapi.yaml")
    types = fill(
        TYPES_H,
        banner=note,
        structs="\n".join(struct(*item) for item in order),
        readers="\n".join(readers),
        writers="\n".join(writers),
    )
    emit(out / "types.h", types)
    emit(out / "codecs.cc", fill(CODECS_CC, banner=note, codecs="\n".join(codecs)))


def write_handlers(api: Api, out: Path) -> None:
    with_params = [op for op in api.operations if op.parameters]
    note = banner("openapi.yaml")
    handlers = fill(
        HANDLERS_H,
        banner=note,
        params="\n".join(map(params_struct, with_params)),
        methods="".join(map(handler, api.operations)),
    )
    emit(out / "handlers.h", handlers)

    # A function for each tag, so that none grows with the API.
    bindings: dict[str, str] = {}
    for op in api.operations:
        bindings[op.tag] = bindings.get(op.tag, "") + binding(op)
    binders = [
        f"void bind_{tag}(http::Router& router, Handlers& handlers) {{\n{text}}}\n"
        for tag, text in bindings.items()
    ]
    bind = fill(
        BIND_CC,
        banner=note,
        params="\n".join(map(params_reader, with_params)),
        binders="\n".join(binders),
        calls="".join(f"  bind_{tag}(router, handlers);\n" for tag in bindings),
    )
    emit(out / "bind.cc", bind)


def write(api: Api, out: Path) -> None:
    write_types(api, out)
    write_handlers(api, out)
