#!/usr/bin/env python3
"""Writes bench/results/*.json as the table of README.md; --check only says whether it is so."""

from __future__ import annotations

import json
import sys
from typing import Any

from report import RESULTS, ROOT, number

README = ROOT / "README.md"
BEGIN, END = "<!-- figures: bench/figures.py -->\n", "<!-- end of figures -->\n"
ORDER = ("transfer", "daemon", "offload", "sandbox")


def cells(row: dict[str, Any]) -> list[str]:
    against = row["other"] if row["other"] is not None else row["limit"]
    ratio = "" if row["ratio"] is None else f"{number(row['ratio'])} ×"
    asked = "" if row["at_least"] is None else f"{number(row['at_least'])} ×"
    short = row["ratio"] is not None and row["at_least"] and row["ratio"] < row["at_least"]
    if short:
        ratio = f"**{ratio}**, falls short"
    unit = row["unit"]
    return [
        row["work"],
        f"{number(row['ours'])} {unit}",
        f"{number(against)} {unit}" if against is not None else "",
        ratio,
        asked,
    ]


def table() -> str:
    results = [
        json.loads(path.read_text())
        for name in ORDER
        if (path := RESULTS / f"{name}.json").exists()
    ]
    if not results:
        return ""
    lines = ["| work | ours | peer or limit | ratio | asked for |", "|---|---|---|---|---|"]
    lines += [f"| {' | '.join(cells(row))} |" for result in results for row in result["rows"]]
    machines = sorted({result["machine"] for result in results})
    return "\n".join([f"On {'; '.join(machines)}, which other programs share:", "", *lines, ""])


def main() -> int:
    text = README.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = before + BEGIN + table() + END + after
    if wanted == text:
        return 0
    if "--check" in sys.argv:
        print("README.md: the figures are not those of bench/results; run bench/figures.py")
        return 1
    README.write_text(wanted)
    return 0


if __name__ == "__main__":
    sys.exit(main())
