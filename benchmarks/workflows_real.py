"""Measure the delay between serial children in real time on the real control plane.

The write rate of the API server is measured first, in the same run. Then 100 workflows of 100
templates each, serial trees of Suspends and Tasks, are driven at once, paced so that all who write
come to half of that rate. With two numbers as arguments it is so many workflows of so many
templates.
"""

from __future__ import annotations

import asyncio
import re
import sys

from measuring import Row, Stopwatch, control_plane, report

from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.objects.chaos_mesh import OVER, SHIPPED
from pytest_kscen.objects.resources import CONFIG_MAPS
from pytest_kscen.run.workflows import family_on
from pytest_kscen.workflow.engine import ENGINE, drive

GROUP, EVERY_TASK = 9, 10
WRITERS, WRITES = 32, 4000
LIMIT = 1.0  # seconds: the design document's
REQUESTS = re.compile(
    r'^apiserver_request_total\{[^}]*verb="(?:POST|PUT|PATCH|APPLY|DELETE)"[^}]*\} (\S+)$',
    re.MULTILINE,
)


def writes_so_far(cluster):
    import ssl
    import urllib.request

    from pytest_kscen.kube.remote import access_of, configuration_of

    access = access_of(configuration_of(cluster.kubeconfig))
    context = access.tls if isinstance(access.tls, ssl.SSLContext) else ssl.create_default_context()
    headers = {"Authorization": access.authorization} if access.authorization else {}
    with urllib.request.urlopen(
        urllib.request.Request(f"{access.server}/metrics", headers=headers), context=context
    ) as answer:
        return sum(float(count) for count in REQUESTS.findall(answer.read().decode()))


def write_rate(cluster):
    """Patches of one small object each, as many at a time as a client would have under way."""
    api = cluster.api("writer")

    async def write(number):
        name = f"written-{number}"
        await api.create(CONFIG_MAPS, {"metadata": {"name": name}, "data": {}}, "default")
        for count in range(WRITES // WRITERS):
            await api.patch(CONFIG_MAPS, name, {"data": {"count": str(count)}}, "default")

    async def all_of_them():
        await asyncio.gather(*map(write, range(WRITERS)))

    with Stopwatch() as watch:
        cluster.runner.call(all_of_them())
    return WRITES / watch.seconds


def workflow(name, templates, seconds):
    """A serial tree: the entry, groups below it, leaves below those, of which some are Tasks."""
    groups = max(1, templates // (GROUP + 2))
    leaves = [f"leaf-{number}" for number in range(templates - 1 - groups)]
    parts = [leaves[number::groups] for number in range(groups)]
    found = [
        {
            "name": "entry",
            "templateType": "Serial",
            "children": [f"group-{number}" for number in range(groups)],
        }
    ]
    found += [
        {"name": f"group-{number}", "templateType": "Serial", "children": part}
        for number, part in enumerate(parts)
    ]
    found += [leaf(each, number, seconds) for number, each in enumerate(leaves)]
    spec = {"entry": "entry", "templates": found}
    metadata = {"name": name, "namespace": "default"}
    return {
        "apiVersion": SHIPPED.workflows.api_version,
        "kind": "Workflow",
        "metadata": metadata,
        "spec": spec,
    }


def leaf(name, number, seconds):
    if number % EVERY_TASK:
        return {"name": name, "templateType": "Suspend", "deadline": f"{int(seconds * 1000)}ms"}
    container = {"name": "main", "image": "busybox", "command": ["true"]}
    return {
        "name": name,
        "templateType": "Task",
        "deadline": "10m",
        "task": {"container": container},
    }


class Watch:
    """How long each parent had no child that was on."""

    def __init__(self):
        self.gaps = []
        self.over = 0
        self._ended = {}

    def take(self, entry):
        if entry.what == "workflow-phase":
            self.over += entry.data["phase"] in OVER
        if entry.what != "workflow-node":
            return
        parent = (entry.data["workflow"], entry.data["parent"])
        if entry.data["phase"] == "Init" and (ended := self._ended.pop(parent, None)) is not None:
            self.gaps.append(entry.at - ended)
        elif entry.data["phase"] in OVER:
            self._ended[parent] = entry.at


def drive_some(cluster, stage, prefix, load):
    """Seconds and writes that it took, and the gaps."""
    count, templates, seconds = load
    watch = Watch()
    stage.journal.follow(watch.take)
    api, before = cluster.api("user"), writes_so_far(cluster)
    with Stopwatch() as stopwatch:
        for number in range(count):
            cluster.runner.call(
                api.create(SHIPPED.workflows, workflow(f"{prefix}-{number}", templates, seconds))
            )
        cluster.until(lambda: watch.over == count, "1h")
    return stopwatch.seconds, writes_so_far(cluster) - before, sorted(watch.gaps)


def main(count=100, templates=100):
    with control_plane(nodes=6) as cluster:
        rate = write_rate(cluster)
        stage = RunContext(
            cluster.api,
            cluster.runner.clock,
            cluster.chance,
            Journal(cluster.runner.clock),
            "bench",
        )
        cluster.runner.start(drive(stage, family_on(cluster)), ENGINE)
        _, writes, _ = drive_some(cluster, stage, "first", (1, templates, 0.1))
        seconds = count * writes / templates / (rate / 2)  # that each leaf lasts
        took, written, gaps = drive_some(cluster, stage, "w", (count, templates, seconds))
        p99 = gaps[int(len(gaps) * 0.99)]
        print(
            f"{writes / templates:.1f} writes a node; {len(gaps):,} children that "
            f"followed another, in {took:.0f} s"
        )
        print(
            f"{written / took:.0f} writes a second of {rate:.0f}; half of them "
            f"{gaps[len(gaps) // 2]:.3f} s, all {gaps[-1]:.3f} s"
        )
        what = (
            f"{count} x {templates} on the real control plane: a child's end to the next "
            "one's beginning, 99 of 100"
        )
        report(
            "Workflows in real time",
            [Row(what, f"{p99:.3f} s", f"{LIMIT:g} s", p99 / LIMIT, 1.0, less_is_better=True)],
        )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
