"""The reference pages: api.md of openapi.yaml, settings.md of config.yaml."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from .model import Api, Json, Operation, emit, quoted
from .python_types import python_type


def link(schema: str) -> str:
    return f"[{schema}](#{schema.lower()})"


def operation_lines(op: Operation) -> Iterator[str]:
    yield f"\n### `{op.method.upper()} {op.path}`\n"
    yield f"{op.spec['summary']} (`{op.id}`, access: {op.access})\n"
    if "description" in op.spec:
        yield op.spec["description"]
    for parameter in op.parameters + op.headers:
        text = f"- `{parameter['name']}` ({parameter['in']}) {parameter.get('description', '')}"
        yield text.rstrip()
    if op.body_type:
        yield f"- body: {link(op.body) if op.body else op.body_type}"
    yield f"- answer: {op.status} {link(op.result) if op.result else ''}".rstrip()


def schema_lines(name: str, schema: Json) -> Iterator[str]:
    yield f"\n### {name}\n\n{schema['description']}\n"
    for value in schema.get("enum", []):
        yield f"- `{value}`"
    for field, spec in schema.get("properties", {}).items():
        need = "" if field in schema.get("required", []) else ", optional"
        text = f"- `{field}` ({python_type(spec)}{need}) {spec.get('description', '')}"
        yield text.rstrip()


def api_lines(api: Api) -> Iterator[str]:
    yield f"# HTTP API\n\n{api.document['info']['description']}"
    for tag in api.document["tags"]:
        yield f"\n## {tag['name']}\n\n{tag['description']}"
        for op in api.operations:
            if op.tag == tag["name"]:
                yield from operation_lines(op)
    yield "\n## Schemas"
    for name, schema in api.schemas.items():
        yield from schema_lines(name, schema)


def setting_lines(config: Json) -> Iterator[str]:
    yield "# Settings\n\nThe keys of `onggid.toml`. The environment overrides the file, the command"
    yield "line overrides both.\n"
    yield "| key | environment | default | what for |\n|---|---|---|---|"
    for setting in config["settings"]:
        key = setting["key"]
        variable = "ONGGI_" + key.upper().replace(".", "_")
        default = f"{quoted(setting['default'])} {setting.get('unit', '')}".rstrip()
        values = f" One of {', '.join(setting['values'])}." if "values" in setting else ""
        yield f"| `{key}` | `{variable}` | `{default}` | {setting['doc']}{values} |"
    for table in config["tables"]:
        yield f"\n## {table['key']}\n\n{table['doc']}\n\n```toml\n{table['example']}```"


def write(api: Api, config: Json, out: Path) -> None:
    emit(out / "api.md", "\n".join(api_lines(api)) + "\n")
    emit(out / "settings.md", "\n".join(setting_lines(config)) + "\n")
