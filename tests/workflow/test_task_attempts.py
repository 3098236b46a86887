"""A Task that is tried again: what is told of each attempt, and how much of what it has written."""

from __future__ import annotations

from test_engine import suspend, template, workflow

from pytest_kscen.objects.resources import EVENTS
from pytest_kscen.objects.workflows import SHIPPED


def test_events_name_the_pod_of_the_attempt_and_the_status_shows_the_beginning_of_its_output(scenario_runner):
    codes = iter([1, 0])

    async def talk(container):
        container.log.write("\x01" * 900_000)
        return next(codes)

    task = {"container": {"name": "main", "image": "talker"}}
    branches = [{"target": "next", "expression": "exitCode == 0 || exitCode % 0 == 1"}]
    entry = template("entry", "Task", task=task, conditionalBranches=branches, retry={"limit": 1})
    with scenario_runner as run:
        run.cluster.site.images.register(talk, image="talker")
        put_on = run.workflow(workflow("entry", entry, suspend("next", "1s")))
        run.until(put_on.finished)
        run.advance("1s")
        api = run.cluster.api("test")
        nodes = run.call(api.list(SHIPPED.nodes, "default")).items
        events = run.call(api.list(EVENTS, "default")).items
    assert put_on.phase == "Succeed"
    (node,) = (each for each in nodes if each["spec"]["templateName"] == "entry")
    name = node["metadata"]["name"]
    told = {(event["reason"], event["message"]) for event in events if event["involvedObject"]["name"] == name}
    assert {("TaskPodSpawned", f"runs pod {name}"), ("TaskPodSpawned", f"runs pod {name}-2")} < told
    assert ("TaskPodPodCompleted", f"pod {name}-2 has come to its end") in told
    (stdout,) = (each for each in node["status"]["conditionalBranchesStatus"]["context"] if each.startswith("stdout"))
    assert len(stdout) < 500
