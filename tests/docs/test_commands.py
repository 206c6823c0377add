"""Every command a document shows works: ```sh blocks run, in order, against a node of their own."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCK = re.compile(
    r"(?:^<!-- (?P<what>before|not run): (?P<text>[^>]*) -->\n+)?^```sh\n(?P<block>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)
PAGES = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
LINK = re.compile(r"\]\(([^)#][^)]*)\)")
PYTHON_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def programs() -> str:
    """The folder of onggi and onggid: ONGGI_BIN, else where the package was installed."""
    folder = os.environ.get("ONGGI_BIN", str(Path(sys.executable).parent))
    if shutil.which("onggid", path=folder) is None:
        pytest.skip("onggid is not built")
    return folder


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    folder = programs()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    data = tmp_path / "node"
    node = subprocess.Popen([f"{folder}/onggid", "--data", str(data), "--port", str(port)])
    while not (data / "onggid.sock").exists():
        assert node.poll() is None
        time.sleep(0.02)
    for folder_of_user in ("pictures", "data"):
        (tmp_path / folder_of_user).mkdir()
        (tmp_path / folder_of_user / "one.jpg").write_bytes(b"not really a picture")
    (tmp_path / "model.pt").write_bytes(b"not really a model")
    yield {
        **os.environ,
        "PATH": f"{folder}:{os.environ['PATH']}",
        "ONGGI_URL": f"http://127.0.0.1:{port}",
        "ONGGI_TOKEN": (data / "admin.token").read_text().strip(),
        "HOME": str(tmp_path),
    }
    node.terminate()
    node.wait(30)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_its_commands_work(document: Path, environment: dict[str, str], tmp_path: Path) -> None:
    for found in BLOCK.finditer(document.read_text()):
        if found["what"] == "not run":
            continue
        block = f"{found['text'] or ''}\n{found['block']}"
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", block],
            env=environment,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("document", PAGES, ids=lambda path: path.name)
def test_its_links_lead_somewhere(document: Path) -> None:
    for target in LINK.findall(document.read_text()):
        if "://" in target or target.startswith("bench/results"):  # results come and go
            continue
        assert (document.parent / target.partition("#")[0]).exists(), target


def test_the_readme_has_a_loader_that_runs(tmp_path: Path) -> None:
    [block] = PYTHON_BLOCK.findall((ROOT / "README.md").read_text())
    script = (
        "import torch\n"
        "dataset = torch.utils.data.TensorDataset(torch.zeros(300, 2))\n"
        f"path = {str(tmp_path / 'state.pt')!r}\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "python" / "src"), "HOME": str(tmp_path)}
    environment["ONGGI_URL"] = "http://127.0.0.1:1"  # nobody there: it falls back and says so
    done = subprocess.run(
        [sys.executable, "-c", script + block],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert "local" in done.stdout
