"""C++ of config.yaml: the Config struct, its table of settings, and the sample onggid.toml."""

from __future__ import annotations

from pathlib import Path

from .model import Json, banner, emit, fill, pascal, quoted

CONFIG_H = """\
// @banner@
#pragma once

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

@structs@
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
"""

CONFIG_CC = """\
// @banner@
#include <generated/daemon/config.h>

namespace onggi::daemon {

std::vector<Setting> settings() {
  return {
@settings@
  };
}

std::string_view sample_toml() {
  return
@sample@;
}

}  // namespace onggi::daemon
"""

SETTING = """\
      {@key@, @doc@, @min@U, @max@U, {@values@},
       [](Config& config) -> Field { return &config.@path@; }},"""

TYPES = {
    "string": "std::string",
    "integer": "std::uint64_t",
    "boolean": "bool",
    "strings": "std::vector<std::string>",
}
INTEGER_MAX = 2**63 - 1


def initial(setting: Json) -> str:
    default = setting["default"]
    if setting["type"] == "strings":
        return "{" + ", ".join(map(quoted, default)) + "}"
    return f"{default}U" if setting["type"] == "integer" else quoted(default)


def structs(settings: list[Json]) -> str:
    """A struct for each section, inner ones first: [active.limits] is ActiveLimitsConfig."""
    sections: dict[str, list[str]] = {"": []}
    for setting in settings:
        section, _, field = setting["key"].rpartition(".")
        sections.setdefault(section, [])
        sections[section].append(f"  {TYPES[setting['type']]} {field} = {initial(setting)};")
    for section in sections:
        if section:
            outer, _, field = section.rpartition(".")
            sections[outer].append(f"  {pascal(section)}Config {field};")
    sections[""].append("  std::vector<VolumeTable> volumes;")
    innermost_first = sorted(sections, key=lambda name: -len(name.split(".")) if name else 0)
    return "\n".join(
        f"struct {pascal(name)}Config {{\n" + "\n".join(sections[name]) + "\n};\n"
        for name in innermost_first
    )


def toml_sample(config: Json) -> str:
    lines = ["# Every setting of onggid with its default. Uncomment what you change."]
    open_section = ""
    for setting in config["settings"]:
        section, _, field = setting["key"].rpartition(".")
        if section != open_section:
            lines += ["", f"[{section}]"]
            open_section = section
        values = f" One of {', '.join(setting['values'])}." if "values" in setting else ""
        lines += [f"# {setting['doc']}{values}", f"#{field} = {quoted(setting['default'])}"]
    for table in config["tables"]:
        lines += ["", f"# {table['doc']}"]
        lines += [f"#{line}" for line in table["example"].splitlines()]
    return "\n".join(lines) + "\n"


def setting_row(setting: Json) -> str:
    return fill(
        SETTING,
        key=quoted(setting["key"]),
        doc=quoted(setting["doc"]),
        min=str(setting.get("min", 0)),
        max=str(setting.get("max", INTEGER_MAX)),
        values=", ".join(map(quoted, setting.get("values", []))),
        path=setting["key"],
    )


def write(config: Json, out: Path) -> None:
    note = banner("config.yaml")
    emit(out / "config.h", fill(CONFIG_H, banner=note, structs=structs(config["settings"])))
    source = fill(
        CONFIG_CC,
        banner=note,
        settings="\n".join(map(setting_row, config["settings"])),
        sample="\n".join(
            f"      {quoted(line)}" for line in toml_sample(config).splitlines(keepends=True)
        ),
    )
    emit(out / "config.cc", source)
