"""The KEP's hoge-controller in three forms: it creates one pod per loop for each ConfigMap."""

import pathlib

from pytest_kscen.objects.errors import AlreadyExists
from pytest_kscen.objects.resources import CONFIG_MAPS, PODS
from tests.scenario.objects import pod

NAME = "hoge-controller"
IN_GO = pathlib.Path(__file__).with_name("hoge.go")


def hoge(name, pods):
    metadata = {"name": name, "namespace": "default", "labels": {"hoge": "true"}}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "data": {"pods": str(pods)},
    }


def wanted(config_maps):
    return [
        f"{each['metadata']['name']}-{number}"
        for each in config_maps
        for number in range(int(each["data"]["pods"]))
    ]


class HogeWaiter:
    """Waiter that finishes when every pod exists."""

    name = NAME
    resources = (CONFIG_MAPS, PODS)

    def unfinished(self, cluster):
        hoges = [
            each
            for each in cluster[CONFIG_MAPS]
            if "hoge" in (each["metadata"].get("labels") or {})
        ]
        return [
            f"pod {name} is missing"
            for name in wanted(hoges)
            if cluster[PODS].get(name, "default") is None
        ]

    def quiet(self, cluster):
        return 0.0

    async def is_idle(self):
        return True


async def control(api, clock, check):
    """Controller in the event loop of a cluster; it runs once a second."""
    while True:
        await run_once(api)
        await check()
        await clock.sleep(1)


async def run_once(api):
    hoges = (await api.list(CONFIG_MAPS, "default", labels="hoge")).items
    there = [each["metadata"]["name"] for each in (await api.list(PODS, "default")).items]
    for name in wanted(hoges):
        if name not in there:
            try:
                await api.create(PODS, pod(name))
            except AlreadyExists:
                continue
            return


def control_with_the_official_client(client, check, stopped):
    """Controller as a separate program."""
    from kubernetes.client import CoreV1Api

    core = CoreV1Api(client)
    while not stopped.wait(0.05):
        hoges = core.list_namespaced_config_map("default", label_selector="hoge").items
        there = {each.metadata.name for each in core.list_namespaced_pod("default").items}
        names = wanted(
            [{"metadata": {"name": each.metadata.name}, "data": each.data} for each in hoges]
        )
        if missing := [name for name in names if name not in there]:
            core.create_namespaced_pod("default", pod(missing[0]))
        check()
