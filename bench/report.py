"""What every benchmark shares: interleaved runs, a table, a plot, and bench/results/NAME.json."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "bench" / "results"
WORK = ROOT / "build" / "bench"


@dataclass
class Row:
    """`ratio` is such that higher is better; `at_least` is what was asked for."""

    work: str
    ours: float | None
    other: float | None
    limit: float | None
    unit: str
    ratio: float | None
    at_least: float | None


def interleaved(runs: int, **measures: Callable[[], float]) -> dict[str, float]:
    """The median of each, measured in turns so that a noisy minute strikes all alike."""
    samples: dict[str, list[float]] = {name: [] for name in measures}
    for _ in range(runs):
        for name, measure in measures.items():
            samples[name].append(measure())
    return {name: statistics.median(values) for name, values in samples.items()}


def machine() -> str:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)
    return f"{os.cpu_count()} × {model}, {memory:.0f} GiB, Linux {platform.release()}"


def publish(name: str, rows: list[Row]) -> None:
    RESULTS.mkdir(parents=True, exist_ok=True)
    command = f"bench/{Path(sys.argv[0]).name}"
    result = {"command": command, "machine": machine(), "rows": [asdict(row) for row in rows]}
    (RESULTS / f"{name}.json").write_text(json.dumps(result, indent=1) + "\n")
    _print_table(rows)
    _draw(name, rows)


def number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _print_table(rows: list[Row]) -> None:
    heads = ("work", "ours", "other", "limit", "unit", "ratio", "at least", "")
    lines: list[tuple[str, ...]] = [heads]
    for row in rows:
        enough = row.ratio is None or row.at_least is None or row.ratio >= row.at_least
        numbers = [number(v) for v in (row.ours, row.other, row.limit)]
        ratios = [number(row.ratio), number(row.at_least)]
        lines.append((row.work, *numbers, row.unit, *ratios, "" if enough else "falls short"))
    widths = [max(len(line[i]) for line in lines) for i in range(len(heads))]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)))


def _draw(name: str, rows: list[Row]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    shown = [row for row in rows if row.ratio is not None]
    figure, axis = pyplot.subplots(figsize=(9, 0.6 * len(shown) + 1), layout="constrained")
    ratios = [(row.ratio or 0) / (row.at_least or 1) for row in shown]
    colours = ["#2f855a" if ratio >= 1 else "#c2410c" for ratio in ratios]
    bars = axis.barh([row.work for row in shown], ratios, color=colours)
    labels = [f"{number(row.ratio)} × (asked: {number(row.at_least)})" for row in shown]
    axis.bar_label(bars, labels=labels, padding=3, fontsize=8)
    axis.axvline(1, color="#52606d", linewidth=1)
    axis.set_xscale("log")
    axis.set_xlabel("measured ratio, in units of what was asked for")
    axis.invert_yaxis()
    axis.margins(x=0.35)
    axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(RESULTS / f"{name}.png", dpi=120)


def seconds_of(*command: str) -> float:
    """The number that a program of ours prints."""
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(output.split()[-1])
