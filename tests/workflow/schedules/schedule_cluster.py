"""Cluster with a Schedule controller and helpers of its tests."""

import asyncio
import contextlib

from pytest_kscen.clock import epoch_of
from pytest_kscen.clusters.embedded import EmbeddedCluster
from pytest_kscen.journal import Journal
from pytest_kscen.kube.actor import RunContext
from pytest_kscen.objects.chaos_mesh import KINDS, PAUSE, SHIPPED
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import EVENTS, PODS
from pytest_kscen.run.workflows import install_chaos_mesh
from pytest_kscen.workflow.engine.manager import WorkflowManager
from pytest_kscen.workflow.schedules import ScheduleController

START = epoch_of("2026-01-01T00:00:00Z")


class ScheduleCluster:
    def __init__(self, seed):
        self.cluster = EmbeddedCluster(seed, nodes=2)
        install_chaos_mesh(self.cluster)
        self.api = self.cluster.api("test")
        self.runner = self.cluster.runner
        self.journal = Journal(self.runner.clock)
        self.context = RunContext(
            self.cluster.api, self.runner.clock, self.cluster.chance, self.journal, "run-1"
        )
        self.notes = []
        self.journal.follow(self._record_entry)
        self._controller = None
        self.begin()

    def _record_entry(self, entry):
        if entry.what == "schedule-spawned":
            due = int(entry.data["object"].rpartition("-")[2])
            self.notes.append((round(self.runner.clock.now() - START, 3), due - int(START)))

    def close(self):
        self.journal.close()
        self.cluster.close()

    def call(self, coroutine):
        return self.runner.call(coroutine)

    def begin(self, *, engine=False):
        async def begin(life):
            return asyncio.get_running_loop().create_task(life)

        if engine:
            self.runner.start(
                WorkflowManager(self.context.actor("workflow-engine"), SHIPPED).run(),
                "workflow-engine",
            )
            return
        life = ScheduleController(self.context.actor("schedules"), SHIPPED).run()
        self._controller = self.call(begin(life))

    def end(self):
        """Cancel the controller as if its process had been killed."""
        self._controller.cancel()
        self.advance(0)

    def advance(self, seconds):
        self.cluster.advance(seconds)

    def until(self, second):
        """Advance to this second since the beginning of the year."""
        self.advance(START + second - self.runner.clock.now())

    def pod(self, name="a"):
        spec = {"nodeName": "node-1", "containers": [{"name": "c", "image": "pause"}]}
        self.call(
            self.api.create(
                PODS,
                {
                    "metadata": {"name": name, "namespace": "default", "labels": {"app": "a"}},
                    "spec": spec,
                },
            )
        )

    def schedule(
        self, schedule="* * * * *", *, resource=SHIPPED.schedules, name="tick", length="10s", **spec
    ):
        chaos = {
            "action": "pod-failure",
            "mode": "all",
            "duration": length,
            "selector": {"labelSelectors": {"app": "a"}},
        }
        body = {
            "schedule": schedule,
            **({"type": "PodChaos", "podChaos": chaos} if "workflow" not in spec else {}),
            **spec,
        }
        self.call(
            self.api.create(
                resource, {"metadata": {"name": name, "namespace": "default"}, "spec": body}
            )
        )

    def see(self, name="tick", resource=SHIPPED.schedules):
        with contextlib.suppress(NotFound):
            return self.call(self.api.get(resource, name, "default"))
        return None

    def pause(self, value):
        self.call(
            self.api.patch(
                SHIPPED.schedules, "tick", {"metadata": {"annotations": {PAUSE: value}}}, "default"
            )
        )

    def status(self, **about):
        return self.see(**about).get("status")

    def there(self, resource=KINDS["PodChaos"].resource):
        """Return existing objects by the second they were spawned for."""
        names = [obj["metadata"]["name"] for obj in self.call(self.api.list(resource)).items]
        return sorted(int(name.rpartition("-")[2]) - int(START) for name in names)

    def spawned(self):
        """Return spawn and due times in seconds since the beginning of the year."""
        return self.notes

    def events(self, name="tick"):
        found = [
            event
            for event in self.call(self.api.list(EVENTS)).items
            if event["involvedObject"]["name"] == name
        ]
        return [(event["reason"], event["message"]) for event in found]
