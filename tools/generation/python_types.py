"""Python of openapi.yaml: a dataclass for each schema, and the table of operations."""

from __future__ import annotations

from pathlib import Path

from .model import Api, Json, banner, emit, fill, is_enum, quoted, ref_name

MODULE = '''\
"""@banner@"""

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
    return {name: _encode(item) for name, item in pairs if item is not None}


@classes@

# Method and path of each operation.
OPERATIONS: dict[str, tuple[str, str]] = {
@operations@
}
'''

CLASS = '''\
@dataclass(frozen=True, slots=True)
class @name@:
    """@description@"""

@fields@

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> @name@:
        return cls(
@decodes@
        )

    def to_json(self) -> dict[str, Any]:
        return _to_json(self)
'''

KEYWORDS = ("from",)


def python_type(schema: Json) -> str:
    if "$ref" in schema:
        return ref_name(schema)
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


def decode(schema: Json, value: str, api: Api) -> str:
    if "$ref" in schema:
        name = ref_name(schema)
        return value if is_enum(api.schemas[name]) else f"{name}.from_json({value})"
    if schema.get("format") == "date-time":
        return f"_time({value})"
    if schema.get("type") == "array" and "$ref" in schema["items"]:
        return f"[{decode(schema['items'], 'item', api)} for item in {value}]"
    return value


def python_class(name: str, schema: Json, api: Api) -> str:
    if is_enum(schema):
        return f"{name} = Literal[{', '.join(map(quoted, schema['enum']))}]\n"
    required = schema.get("required", [])
    fields, decodes = [], []
    # Fields with a default come last, as dataclasses want it; a stable sort keeps the rest.
    for field, spec in sorted(
        schema["properties"].items(), key=lambda item: item[0] not in required
    ):
        key = f"{field}_" if field in KEYWORDS else field
        kind = python_type(spec)
        read = decode(spec, f"value[{quoted(field)}]", api)
        if field not in required:
            default = repr(spec.get("default"))
            kind += ("" if "default" in spec else " | None") + f" = {default}"
            read += f" if {quoted(field)} in value else {default}"
        fields.append(f"    {key}: {kind}")
        decodes.append(f"            {key}={read},")
    return fill(
        CLASS,
        name=name,
        description=schema["description"],
        fields="\n".join(fields),
        decodes="\n".join(decodes),
    )


def write(api: Api, out: Path) -> None:
    classes = [
        python_class(name, api.schemas[name], api) for name in api.in_order(set(api.schemas))
    ]
    operations = [
        f"    {quoted(op.id)}: ({quoted(op.method.upper())}, {quoted(op.path)}),"
        for op in api.operations
    ]
    module = fill(
        MODULE,
        banner=banner("openapi.yaml"),
        classes="\n\n".join(classes),
        operations="\n".join(operations),
    )
    emit(out, module)
