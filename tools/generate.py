#!/usr/bin/env python3
"""Makes code and pages of api/openapi.yaml and api/config.yaml. Nothing it writes is committed.

generate.py cpp DIR        types.h codecs.cc handlers.h bind.cc
generate.py config DIR     config.h config.cc
generate.py python FILE    a module of typed dataclasses
generate.py reference DIR  api.md settings.md
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import yaml
from generation import cpp_api, cpp_config, python_types, reference
from generation.model import Api, Json

ROOT = Path(__file__).resolve().parent.parent


def load_api() -> Api:
    return Api(yaml.safe_load((ROOT / "api/openapi.yaml").read_text()))


def load_config() -> Json:
    config: Json = yaml.safe_load((ROOT / "api/config.yaml").read_text())
    return config


MODES: dict[str, Callable[[Path], None]] = {
    "cpp": lambda out: cpp_api.write(load_api(), out),
    "config": lambda out: cpp_config.write(load_config(), out),
    "python": lambda out: python_types.write(load_api(), out),
    "reference": lambda out: reference.write(load_api(), load_config(), out),
}


def main() -> int:
    if len(sys.argv) != 3 or sys.argv[1] not in MODES:
        print(__doc__, file=sys.stderr)
        return 2
    MODES[sys.argv[1]](Path(sys.argv[2]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
