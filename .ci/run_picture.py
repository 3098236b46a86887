"""Draw docs/run.svg, twenty minutes of a run, from its journal; `--check` compares only.

Each volume is a bar from its creation to its end. It is red while one of its conditions is not
True. Incidents are grey bands.
"""

from __future__ import annotations

import json
import pathlib
import sys
import warnings

from pytest_kscen.chaos.profiles import NetworkBlock
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.megatest.churn import Churn
from pytest_kscen.run.plan import Plan
from pytest_kscen.run.runner import ScenarioRunner

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs" / "run.svg"
SECONDS, WIDTH, ROW, TOP, LEFT = 1200.0, 760, 9, 34, 10
TITLE = "20 minutes of cluster time: volumes blue, unhealthy red, network-block incidents grey"
CALM, BROKEN, BAND = "#4c8bc0", "#d0342c", "#dcdcdc"


def entries() -> list[dict]:
    cluster = EmbeddedCluster("5")
    plan = Plan(Churn(max_volumes=6), (NetworkBlock((60.0, 120.0), (20.0, 60.0)),))
    runner = ScenarioRunner(cluster, plan, parent=cluster.parent)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        runner.run(SECONDS)
    found = [json.loads(line) for line in runner.runs[0].journal.content().splitlines()]
    runner.close()
    cluster.close()
    return found


def spans(journal: list[dict]) -> tuple[dict, dict, list[tuple[str, float, float]]]:
    """Return volumes and incidents with start and end, and the times of each volume's trouble."""
    volumes: dict[str, list[float]] = {}
    incidents: dict[str, list[float]] = {}
    trouble: list[tuple[str, float, float]] = []
    away: dict[tuple[str, str], float] = {}
    for entry in journal:
        at, name = min(entry["at"], SECONDS), entry.get("volume", "")
        match entry["what"]:
            case "volume":
                volumes[name] = [at, SECONDS]
            case "checker-stopped" | "volume-disappeared" if name in volumes:
                volumes[name][1] = at
            case "condition-changed" if entry["observed"] != "True":
                away.setdefault((name, entry["condition"]), at)
            case "condition-changed" if (name, entry["condition"]) in away:
                trouble.append((name, away.pop((name, entry["condition"])), at))
            case "incident-started":
                incidents[entry["incident"]] = [at, SECONDS]
            case "incident-ended":
                incidents[entry["incident"]][1] = at
    trouble += [(name, since, volumes[name][1]) for (name, _), since in away.items()]
    return volumes, incidents, trouble


def x(at: float) -> float:
    return round(LEFT + at / SECONDS * WIDTH, 1)


def bar(since: float, until: float, y: float, tall: float, colour: str) -> str:
    width = max(round(x(until) - x(since), 1), 1.0)
    return f'<rect x="{x(since)}" y="{y}" width="{width}" height="{tall}" fill="{colour}"/>'


def picture(journal: list[dict]) -> str:
    volumes, incidents, trouble = spans(journal)
    rows = {name: TOP + number * ROW for number, name in enumerate(volumes)}
    wide, height = WIDTH + 2 * LEFT, TOP + len(rows) * ROW + 24
    size = f'viewBox="0 0 {wide} {height}" font-family="sans-serif" font-size="11"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size}>',
        f'<rect width="{wide}" height="{height}" fill="white"/>',
        f'<text x="{LEFT}" y="16">{TITLE}</text>',
    ]
    parts += [bar(*band, TOP - 8, height - TOP - 10, BAND) for band in incidents.values()]
    parts += [bar(*volumes[name], y, ROW - 4, CALM) for name, y in rows.items()]
    parts += [bar(since, until, rows[name], ROW - 4, BROKEN) for name, since, until in trouble]
    for minute in range(0, 20, 5):
        parts.append(f'<text x="{x(minute * 60)}" y="{height - 6}">{minute}m</text>')
    return "\n".join([*parts, "</svg>\n"])


def main(arguments: list[str]) -> int:
    new = picture(entries())
    if "--check" not in arguments:
        PAGE.write_text(new, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != new:
        print("docs/run.svg is stale: run python .ci/run_picture.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
