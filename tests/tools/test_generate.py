"""tools/generate.py: what it makes is complete, strict and follows the two sources."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from generation import cpp_api, cpp_config, python_types, reference  # noqa: E402
from generation.model import Api  # noqa: E402

GENERATOR = ROOT / "tools/generate.py"


def load(path: Path, name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def api() -> Api:
    return Api(yaml.safe_load((ROOT / "api/openapi.yaml").read_text()))


@pytest.fixture(scope="module")
def config() -> Any:
    return yaml.safe_load((ROOT / "api/config.yaml").read_text())


@pytest.fixture(scope="module")
def types(api: Api, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("generated") / "api_types.py"
    python_types.write(api, path)
    return load(path, "api_types")


def test_description_is_valid_openapi(api: Api) -> None:
    validator = pytest.importorskip("openapi_spec_validator")
    validator.validate(api.document)


def test_operations_have_names_of_their_own(api: Api) -> None:
    names = [operation.id for operation in api.operations]
    assert len(names) == len(set(names))
    assert all(name.islower() and name.isidentifier() for name in names)


def test_every_operation_has_a_handler_and_a_route(api: Api, tmp_path: Path) -> None:
    cpp_api.write(api, tmp_path)
    handlers = (tmp_path / "handlers.h").read_text()
    bindings = (tmp_path / "bind.cc").read_text()
    for operation in api.operations:
        assert f" {operation.id}(const Call& call" in handlers
        assert f"handlers.{operation.id}(call" in bindings


def test_only_health_metrics_version_options_and_transfers_are_open(api: Api) -> None:
    paths = {operation.path for operation in api.operations if operation.access == "open"}
    assert paths == {
        "/healthz",
        "/readyz",
        "/metrics",
        "/v1/version",
        "/v1/vfolders/{vfolder}/uploads",
        "/v1/transfers/download",
        "/v1/transfers/upload",
    }
    opened = [o.id for o in api.operations if o.access == "open" and o.path.endswith("/uploads")]
    assert opened == ["get_upload_options"]


def test_rest_of_path_becomes_a_wildcard(api: Api) -> None:
    get_file = next(operation for operation in api.operations if operation.id == "get_file")
    assert get_file.pattern == "/v1/vfolders/{vfolder}/files/{path*}"


def test_output_does_not_depend_on_the_run(api: Api, tmp_path: Path) -> None:
    cpp_api.write(api, tmp_path / "a")
    cpp_api.write(api, tmp_path / "b")
    for path in (tmp_path / "a").iterdir():
        assert path.read_text() == (tmp_path / "b" / path.name).read_text()


def test_sample_is_toml_and_holds_every_default(config: Any) -> None:
    lines = cpp_config.toml_sample(config).splitlines()
    uncommented = [line[1:] if line[:1] == "#" and line[1:2] != " " else line for line in lines]
    sample = tomllib.loads("\n".join(uncommented))
    for setting in config["settings"]:
        value: Any = sample
        for part in setting["key"].split("."):
            value = value[part]
        assert value == setting["default"], setting["key"]


def test_settings_say_why_and_allow_their_defaults(config: Any) -> None:
    for setting in config["settings"]:
        assert setting["doc"].endswith("."), setting["key"]
        default = setting["default"]
        if setting["type"] == "integer":
            assert setting.get("min", 0) <= default <= setting.get("max", 2**63 - 1)
        if "values" in setting:
            assert default in setting["values"]


def test_python_types_go_round(types: Any) -> None:
    value = {
        "path": "a/b",
        "kind": "file",
        "size_bytes": 1,
        "modified": "2026-01-02T03:04:05.678Z",
        "mode": 420,
        "etag": "e",
    }
    page = types.EntryPage.from_json({"items": [value], "next_cursor": "c"})
    assert page.items[0].modified.year == 2026
    assert page.to_json() == {"items": [value], "next_cursor": "c"}


def test_python_types_take_newer_servers_and_absent_fields(types: Any) -> None:
    page = types.VFolderPage.from_json({"items": [], "added_later": 1})
    assert page.next_cursor is None
    assert types.Move(from_="a", to="b").to_json() == {"from": "a", "to": "b", "replace": False}


def test_python_knows_every_operation(types: Any, api: Api) -> None:
    assert set(types.OPERATIONS) == {operation.id for operation in api.operations}
    assert types.OPERATIONS["get_file"] == ("GET", "/v1/vfolders/{vfolder}/files/{path}")


def test_python_types_are_typed(api: Api, tmp_path: Path) -> None:
    python_types.write(api, tmp_path / "_api.py")
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "_api.py"]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_reference_names_every_operation_schema_and_setting(
    api: Api, config: Any, tmp_path: Path
) -> None:
    reference.write(api, config, tmp_path)
    page = (tmp_path / "api.md").read_text()
    assert all(f"`{operation.id}`" in page for operation in api.operations)
    assert all(f"### {name}\n" in page for name in api.schemas)
    settings = (tmp_path / "settings.md").read_text()
    assert all(f"`{setting['key']}`" in settings for setting in config["settings"])


def test_wrong_use_is_told() -> None:
    command = [sys.executable, str(GENERATOR), "java", "x"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 2
    assert "generate.py cpp DIR" in result.stderr
