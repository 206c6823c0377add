"""tools/check_layers.py and check_words.py: they refuse what they say they refuse."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_layers  # noqa: E402
import check_words  # noqa: E402


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two modules, of which `upper` may include `lower`, and its tests `aside` too."""
    monkeypatch.setattr(check_layers, "SRC", tmp_path / "src")
    write(
        tmp_path,
        {
            "CMakeLists.txt": "".join(f"add_subdirectory(src/{m})\n" for m in MODULES),
            "src/lower/CMakeLists.txt": "onggi_module(lower DEPENDS fmt::fmt)",
            "src/lower/low.h": "#pragma once\n",
            "src/aside/CMakeLists.txt": "onggi_module(aside DEPENDS lower)",
            "src/aside/aside.h": "#pragma once\n",
            "src/upper/CMakeLists.txt": "onggi_module(upper DEPENDS lower TEST_DEPENDS aside)\n"
            "onggi_program(up up_main.cc DEPENDS upper aside)",
            "src/upper/up.cc": '#include "lower/low.h"\n#include "generated/api.h"\n',
            "src/upper/up_test.cc": '#include "aside/aside.h"\n',
            "src/upper/up_main.cc": '#include "aside/aside.h"\n',
        },
    )
    return tmp_path


MODULES = ("lower", "aside", "upper")


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_a_tree_that_keeps_its_layers_passes(tree: Path) -> None:
    assert check_layers.main() == 0


@pytest.mark.parametrize(
    ("name", "text", "complaint"),
    [
        ("lower/low.cc", '#include "upper/up.h"\n', "is not a path from src/"),
        ("lower/low.cc", '#include "aside/aside.h"\n', "lower does not depend on it"),
        ("upper/more.cc", '#include "aside/aside.h"\n', "upper does not depend on it"),
        ("upper/more.cc", "\n" * 801, "801 lines, the limit is 800"),
        ("upper/more.h", "\n" * 401, "401 lines, the limit is 400"),
        ("upper/inner/deep_test.cc", "", "no onggi_module() in its folder builds it"),
        ("upper/other_main.cc", "", "no onggi_program() builds it"),
        ("upper/up_fuzz.cc", "", "nothing builds it here"),
        ("lost/lost.cc", "", "belongs to no module"),
        ("late/CMakeLists.txt", "onggi_module(late DEPENDS lower)", "CMakeLists.txt does not add"),
        ("upper/util/x.h", "", "the name says nothing"),
    ],
)
def test_what_breaks_them_is_refused(
    tree: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, complaint: str
) -> None:
    write(tree / "src", {name: text})
    assert check_layers.main() == 1
    assert complaint in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("all is well", False),
        ("TO" + "DO(#12): later", False),
        ("TO" + "DO: later", True),
        ("/wo" + "rk/main/x", True),
        ("https://py" + "pi.org/simple", True),
    ],
)
def test_words_that_do_not_belong_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, refused: bool
) -> None:
    write(tmp_path, {"page.md": text})
    for command in (["git", "init", "-q"], ["git", "add", "page.md"]):
        subprocess.run(command, cwd=tmp_path, check=True)
    monkeypatch.setattr(check_words, "ROOT", tmp_path)
    assert check_words.main() == refused
