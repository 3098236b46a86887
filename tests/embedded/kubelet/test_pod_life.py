import itertools

import pytest

from pytest_kscen.objects.errors import Forbidden
from pytest_kscen.objects.resources import NODES, PODS

SH = {"image": "busybox:1"}


def sh(script, **more):
    return {**SH, "command": ["sh", "-c", script], **more}


def running_at(site, name="p"):
    return site.until(lambda: site.status(name)["phase"] == "Running")


def conditions(status):
    return {one["type"]: one["status"] for one in status["conditions"]}


class TestStart:
    def test_pod_start_duration(self, site):
        site.create()
        assert running_at(site) == 1.5
        site.create("q")
        assert running_at(site, "q") == 1.5 + 0.7

    def test_status_before_start(self, site):
        site.create()
        site.advance(1)
        status = site.status()
        assert status["phase"] == "Pending"
        assert status["startTime"] == "2026-01-01T00:00:00Z"
        assert status["hostIP"] == "172.18.0.2"
        assert "podIP" not in status
        assert site.container()["state"] == {"waiting": {"reason": "ContainerCreating"}}
        assert conditions(status) == {
            "PodReadyToStartContainers": "False",
            "Initialized": "True",
            "Ready": "False",
            "ContainersReady": "False",
            "PodScheduled": "True",
        }
        ready = next(one for one in status["conditions"] if one["type"] == "Ready")
        assert (ready["reason"], ready["message"]) == (
            "ContainersNotReady",
            "containers with unready status: [c]",
        )

    def test_status_while_running(self, site):
        site.create()
        site.advance(2)
        status = site.status()
        assert (status["podIP"], status["podIPs"]) == ("10.128.0.1", [{"ip": "10.128.0.1"}])
        assert set(conditions(status).values()) == {"True"}
        container = site.container()
        assert container["state"] == {"running": {"startedAt": "2026-01-01T00:00:01Z"}}
        assert (container["ready"], container["started"], container["restartCount"]) == (
            True,
            True,
            0,
        )
        assert container["image"] == "docker.io/library/app:1"
        assert container["containerID"].startswith("containerd://")
        assert site.events() == [
            ("Pulling", 'Pulling image "app:1"'),
            (
                "Pulled",
                (
                    'Successfully pulled image "app:1" in 800ms (800ms including waiting). '
                    "Image size: 10000000 bytes."
                ),
            ),
            ("Created", "Container created"),
            ("Started", "Container started"),
        ]

    def test_addresses_are_unique_and_reused_late(self, site):
        for name in "abc":
            site.create(name)
        site.advance(2)
        assert [site.status(name)["podIP"] for name in "abc"] == [
            "10.128.0.1",
            "10.128.0.2",
            "10.128.0.3",
        ]
        site.delete("a", grace_period=0)
        site.create("d")
        site.advance(2)
        assert site.status("d")["podIP"] == "10.128.0.4"

    def test_host_network_pod_has_host_address(self, site):
        site.create(hostNetwork=True)
        site.advance(2)
        assert site.status()["podIP"] == site.status()["hostIP"]

    def test_foreign_conditions_are_kept(self, site):
        site.create(readinessGates=[{"conditionType": "example.com/gate"}])
        site.advance(2)
        ready = next(one for one in site.status()["conditions"] if one["type"] == "Ready")
        assert (
            ready["message"]
            == 'corresponding condition of pod readiness gate "example.com/gate" does not exist.'
        )
        gate = {"type": "example.com/gate", "status": "True"}
        status = {**site.status(), "conditions": [*site.status()["conditions"], gate]}
        site.call(site.api.update(PODS, {**site.pod(), "status": status}, subresource="status"))
        site.advance(0)
        assert conditions(site.status())["example.com/gate"] == "True"
        assert conditions(site.status())["Ready"] == "True"

    def test_probe_delays(self, site):
        probe = {"exec": {"command": ["true"]}}
        site.create(
            container={
                "image": "app:1",
                "startupProbe": {**probe, "initialDelaySeconds": 4},
                "readinessProbe": {**probe, "initialDelaySeconds": 10},
            }
        )
        assert running_at(site) == 1.5
        assert (site.container()["started"], site.container()["ready"]) == (False, False)
        assert site.until(lambda: site.container()["started"]) == 5.5
        assert site.until(lambda: site.container()["ready"]) == 11.5

    @pytest.mark.parametrize(
        "spec",
        [
            {},
            {"container": sh("exit 1")},
            {"container": sh("exit 0"), "restartPolicy": "Never"},
            {
                "initContainers": [
                    {"name": "i", **sh("true")},
                    {"name": "s", "image": "app:1", "restartPolicy": "Always"},
                ]
            },
            {"container": {"image": "registry.invalid/app:1"}},
            {"volumes": [{"name": "v", "configMap": {"name": "missing"}}]},
            {
                "container": {
                    "image": "app:1",
                    "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2"}},
                }
            },
        ],
    )
    def test_unchanged_status_is_not_written(self, site, spec):
        site.create(**spec)
        site.advance(4)
        written = site.call(
            site.api.patch(PODS, "p", {"metadata": {"labels": {"a": "b"}}}, "default")
        )
        site.advance(0)
        assert site.pod()["metadata"]["resourceVersion"] == written["metadata"]["resourceVersion"]


class TestEnd:
    @pytest.mark.parametrize(
        ("script", "phase", "code", "reason"),
        [
            ("exit 0", "Succeeded", 0, "Completed"),
            ("sleep 5; exit 3", "Failed", 3, "Error"),
            ("nonsense", "Failed", 127, "Error"),
        ],
    )
    def test_container_exits(self, site, script, phase, code, reason):
        site.create(container=sh(script), restartPolicy="Never")
        site.advance(10)
        status, ended = site.status(), site.container()["state"]["terminated"]
        assert status["phase"] == phase
        assert (ended["exitCode"], ended["reason"]) == (code, reason)
        ready = next(one for one in status["conditions"] if one["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == (
            "False",
            "PodCompleted" if phase == "Succeeded" else "PodFailed",
        )

    def test_status_has_start_and_end_times(self, site):
        site.create(container=sh("sleep 5"), restartPolicy="Never")
        site.advance(10)
        ended = site.container()["state"]["terminated"]
        assert (ended["startedAt"], ended["finishedAt"]) == (
            "2026-01-01T00:00:01Z",
            "2026-01-01T00:00:06Z",
        )

    def test_deleted_server_stops_immediately(self, site):
        site.create()
        site.advance(2)
        site.delete()
        assert site.until(lambda: not site.exists()) == 2.5
        assert site.events()[-1] == ("Killing", "Stopping container c")

    def test_refused_removal_is_retried(self, site, monkeypatch):
        """The interval is ten seconds, without limit."""
        delete = site.api.delete

        async def kept(*what, **options):
            if options.get("grace_period") == 0 and site.now < 15:
                raise Forbidden("kept")
            return await delete(*what, **options)

        monkeypatch.setattr(site.api, "delete", kept)
        site.create()
        site.advance(2)
        site.delete()
        assert site.until(lambda: not site.exists()) == 22.5

    def test_shell_ignores_sigterm(self, site):
        site.create(container=sh("sleep 1000"), terminationGracePeriodSeconds=7)
        site.advance(2)
        site.delete()
        site.advance(7.1)
        assert site.container()["state"]["terminated"]["exitCode"] == 137
        assert site.until(lambda: not site.exists()) == 9.5

    def test_changes_of_one_instant_are_one_write(self, site, monkeypatch):
        update, told = site.api.update, []

        async def heard(resource, obj, **options):
            told.append(obj["status"].get("phase"))
            return await update(resource, obj, **options)

        site.create(container=sh("exit 0"), restartPolicy="Never")
        site.create("q")
        site.advance(1)
        monkeypatch.setattr(site.api, "update", heard)
        site.until(lambda: site.status()["phase"] == "Succeeded")
        site.until(lambda: site.status("q")["phase"] == "Running")
        site.delete("q")
        site.until(lambda: not site.exists("q"))
        assert told == ["Succeeded", "Running", "Succeeded"]

    def test_end_is_written_immediately_and_once(self, site):
        site.create(container=sh("trap 'exit 0' TERM; sleep 1000"), terminationGracePeriodSeconds=7)
        site.advance(2)
        site.delete()
        site.advance(1)
        asked = site.pod()["metadata"]["resourceVersion"]
        ended = site.until(lambda: site.pod()["metadata"]["resourceVersion"] != asked)
        told = site.pod()["metadata"]["resourceVersion"]
        assert conditions(site.status())["PodReadyToStartContainers"] == "False"
        assert site.status()["phase"] in {"Succeeded", "Failed"}
        assert "terminated" in site.container()["state"]
        site.advance(0.4)
        assert site.pod()["metadata"]["resourceVersion"] == told
        assert site.until(lambda: not site.exists()) == ended + 0.5

    def test_deadline_does_not_change_final_status(self, site):
        site.create(activeDeadlineSeconds=5)
        site.advance(4.8)
        site.delete()
        site.advance(0.1)
        last = site.status()
        assert last["phase"] == "Succeeded"
        site.advance(0.3)
        assert site.status() == last

    def test_address_is_released_once(self, site):
        machine = site.machines["node-1"]
        site.create()
        site.advance(2)
        address = site.status()["podIP"]
        site.delete()
        site.advance(0.1)
        assert site.exists()
        assert not machine.has_address(address)
        while machine.allocate_address() != address:
            """Others take what comes before it."""
        site.until(lambda: not site.exists())
        assert machine.has_address(address)

    def test_second_deletion_shortens_grace_period(self, site):
        site.create(container=sh("sleep 1000"))
        site.advance(2)
        site.delete()
        site.advance(1)
        site.delete(grace_period=2)
        assert site.until(lambda: not site.exists()) == 5.5

    def test_unstarted_pod_is_removed_immediately(self, site):
        site.create(volumes=[{"name": "v", "configMap": {"name": "missing"}}])
        site.advance(2)
        site.delete()
        assert site.until(lambda: not site.exists()) == 2

    def test_pre_stop_sleep_comes_first(self, site):
        site.create(
            container={"image": "app:1", "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}}
        )
        site.advance(2)
        site.delete()
        assert site.until(lambda: not site.exists()) == 7.5

    def test_deadline(self, site):
        site.create(activeDeadlineSeconds=5)
        site.advance(10)
        status = site.status()
        assert (status["phase"], status["reason"]) == ("Failed", "DeadlineExceeded")
        assert status["message"] == "Pod was active on the node longer than the specified deadline"
        assert ("DeadlineExceeded", status["message"]) in site.events()

    def test_termination_message_from_log(self, site):
        site.create(
            container=sh("echo boom; exit 1", terminationMessagePolicy="FallbackToLogsOnError"),
            restartPolicy="Never",
        )
        site.advance(3)
        assert site.container()["state"]["terminated"]["message"] == "boom\n"

    def test_oom(self, site):
        site.create(annotations={"kscen.io/exit-reason": "OOMKilled"}, restartPolicy="Never")
        site.advance(3)
        ended = site.container()["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "OOMKilled")


class TestRestart:
    def test_backoff_doubles_to_five_minutes(self, site):
        site.create(container=sh("exit 1"))
        starts = [
            site.until(lambda count=count: site.container()["restartCount"] == count, timeout=1000)
            for count in range(1, 9)
        ]
        assert [round(later - earlier, 1) for earlier, later in itertools.pairwise(starts)] == [
            10.3, 20.3, 40.3, 80.3, 160.3, 300.3, 300.3
        ]  # fmt: skip

    def test_crash_loop_status(self, site):
        site.create(container=sh("exit 1"))
        site.until(lambda: site.container()["restartCount"] == 1)
        site.advance(0.5)
        assert site.container()["state"]["terminated"]["reason"] == "Error"
        site.advance(1)
        pod, container = site.pod(), site.container()
        where = f"p_default({pod['metadata']['uid']})"
        assert pod["status"]["phase"] == "Running"
        assert container["state"]["waiting"] == {
            "reason": "CrashLoopBackOff",
            "message": f"back-off 10s restarting failed container=c pod={where}",
        }
        assert container["lastState"]["terminated"]["exitCode"] == 1
        assert (
            "BackOff",
            f"Back-off restarting failed container c in pod {where}",
        ) in site.events()

    def test_backoff_is_reset_after_ten_minutes(self, site):
        site.create(annotations={"kscen.io/exit-after": "601s"})
        site.until(lambda: site.container()["restartCount"] == 3)
        assert site.now == round(1.5 + 3 * (601 + 0.3), 6)

    def test_on_failure(self, site):
        site.create(annotations={"kscen.io/exit-code": "1,1,0"}, restartPolicy="OnFailure")
        site.advance(60)
        assert site.status()["phase"] == "Succeeded"
        assert site.container()["restartCount"] == 2
        assert site.container()["lastState"]["terminated"]["exitCode"] == 1

    def test_previous_log_is_kept(self, site):
        site.create(container=sh("echo hello; exit 1"))
        site.until(lambda: site.container()["restartCount"] == 1)
        assert site.log() == "hello\n"
        assert site.log(previous="true") == "hello\n"

    def test_killed_container_is_restarted(self, site):
        site.create(terminationGracePeriodSeconds=0)
        site.advance(2)
        site.call(_kill(site))
        site.advance(1)
        assert site.container()["lastState"]["terminated"]["exitCode"] == 137
        assert site.container()["restartCount"] == 1

    def test_image_change_restarts_container(self, site):
        site.create(restartPolicy="Never")
        site.advance(2)
        pod = site.pod()
        containers = [{**pod["spec"]["containers"][0], "image": "app:2"}]
        site.call(site.api.update(PODS, {**pod, "spec": {**pod["spec"], "containers": containers}}))
        site.advance(2)
        assert site.container()["image"] == "docker.io/library/app:2"
        assert site.container()["restartCount"] == 1
        assert ("Killing", "Container c definition changed, will be restarted") in site.events()


async def _kill(site):
    site.kubelets.kill("default", "p", "c")


class TestInitContainers:
    def test_init_containers_run_in_order(self, site):
        inits = [{"name": name, **sh("sleep 10")} for name in ("one", "two")]
        site.create(initContainers=inits)
        site.advance(13)
        assert site.container(container="one")["ready"] is True
        assert "running" in site.container(container="two")["state"]
        assert site.container()["state"] == {"waiting": {"reason": "PodInitializing"}}
        initialized = next(
            one for one in site.status()["conditions"] if one["type"] == "Initialized"
        )
        assert initialized["message"] == "containers with incomplete status: [two]"
        assert running_at(site) == round(0.4 + (0.8 + 0.3 + 10) + (0.3 + 10) + 0.8 + 0.3, 6)

    def test_failed_init_container_fails_pod(self, site):
        site.create(initContainers=[{"name": "i", **sh("exit 4")}], restartPolicy="Never")
        site.advance(3)
        assert site.status()["phase"] == "Failed"
        assert site.container()["state"] == {"waiting": {"reason": "PodInitializing"}}

    def test_failed_init_container_is_restarted(self, site):
        site.create(initContainers=[{"name": "i", **sh("exit 4")}])
        site.advance(5)
        assert site.status()["phase"] == "Pending"
        assert site.container(container="i")["restartCount"] == 1

    def test_sidecar_starts_first_and_ends_last(self, site):
        sidecar = {"name": "side", "image": "app:1", "restartPolicy": "Always"}
        site.create(initContainers=[sidecar], container=sh("sleep 5"), restartPolicy="Never")
        assert running_at(site) == 0.4 + 0.8 + 0.3 + 0.8 + 0.3
        assert site.container(container="side")["started"] is True
        assert site.until(lambda: site.status()["phase"] == "Succeeded") == 2.6 + 5
        assert site.container(container="side")["state"]["terminated"]["exitCode"] == 0


class TestMissingDependencies:
    def test_missing_image(self, site):
        release_address = site.images.fail_pulls("app")
        site.create()
        site.advance(1.5)
        assert site.container()["state"]["waiting"]["reason"] == "ErrImagePull"
        site.advance(1)
        waiting = site.container()["state"]["waiting"]
        assert waiting["reason"] == "ImagePullBackOff"
        assert waiting["message"].startswith(
            'Back-off pulling image "app:1": ErrImagePull: failed to pull'
        )
        release_address()
        assert running_at(site) == round(0.4 + 0.8 + 10 + 0.8 + 0.3, 6)

    def test_invalid_image_reference(self, site):
        site.create(container={"image": "registry.invalid/app:1"})
        site.advance(600)
        assert site.container()["state"]["waiting"]["reason"] == "ImagePullBackOff"

    def test_image_with_pull_policy_never(self, site):
        site.create(container={"image": "app:1", "imagePullPolicy": "Never"})
        site.advance(2)
        assert site.container()["state"]["waiting"] == {
            "reason": "ErrImageNeverPull",
            "message": 'Container image "app:1" is not present with pull policy of Never',
        }

    def test_missing_config_map_of_variable(self, site, make):
        reference = {"configMapKeyRef": {"name": "settings", "key": "color"}}
        container = {"env": [{"name": "COLOR", "valueFrom": reference}]}
        site.create(container=sh("echo $COLOR; sleep 1000", **container))
        site.advance(2)
        assert site.container()["state"]["waiting"] == {
            "reason": "CreateContainerConfigError",
            "message": 'configmap "settings" not found',
        }
        make("ConfigMap", "settings", data={"color": "blue"})
        assert running_at(site) == 0.4 + 0.8 + 10 + 0.3
        assert site.log() == "blue\n"

    def test_missing_config_map_of_volume(self, site, make):
        mounts = [{"name": "v", "mountPath": "/etc/v"}]
        site.create(
            container=sh("cat /etc/v/color; sleep 1000", volumeMounts=mounts),
            volumes=[{"name": "v", "configMap": {"name": "settings"}}],
        )
        site.advance(2)
        assert site.events()[0] == (
            "FailedMount",
            'MountVolume.SetUp failed for volume "v" : configmap "settings" not found',
        )
        make("ConfigMap", "settings", data={"color": "blue\n"})
        assert running_at(site) == 0.5 + 1 + 2 + 1.5
        assert site.log() == "blue\n"

    def test_missing_claim(self, site, make):
        claim = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
        site.create(volumes=[claim])
        site.advance(60)
        assert site.status()["phase"] == "Pending"
        assert site.events()[0][0] == "FailedMount"
        assert site.events()[0][1].endswith(
            'failed to fetch PVC from API server: persistentvolumeclaim "data" not found'
        )
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "volumeName": "pv",
        }
        made = make("PersistentVolumeClaim", "data", spec=spec)
        site.advance(1)
        assert site.events()[-1][1].endswith("error processing PVC default/data: PVC is not bound")
        made(status={"phase": "Bound"})
        assert running_at(site) == 62.5


class TestEnvironment:
    def test_variables_from_all_sources(self, site, make):
        make("Secret", "s", stringData={"TOKEN": "t"}, data={"TOKEN": "dA=="})
        env = [
            {"name": "PLAIN", "value": "x"},
            {"name": "JOINED", "value": "$(PLAIN)-$(UNKNOWN)-$$(PLAIN)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {
                "name": "CPU",
                "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu", "divisor": "1m"}},
            },
        ]
        script = "echo $PLAIN $JOINED $POD $IP $NODE $CPU $S_TOKEN $HOSTNAME; sleep 1000"
        container = sh(script, env=env, resources={"requests": {"cpu": "250m"}})
        container["envFrom"] = [{"prefix": "S_", "secretRef": {"name": "s"}}]
        site.create(container=container)
        site.advance(2)
        assert site.log() == "x x-$(UNKNOWN)-$(PLAIN) p 10.128.0.1 node-1 250 t p\n"

    def test_commands_expand_variables(self, site):
        container = {
            "image": "busybox",
            "command": ["echo", "$(WHO)"],
            "env": [{"name": "WHO", "value": "me"}],
        }
        site.create(container=container, restartPolicy="Never")
        site.advance(2)
        assert site.log() == "me\n"


class TestRefusal:
    def test_insufficient_cpu_is_refused(self, site):
        site.create(container={"image": "app:1", "resources": {"requests": {"cpu": "6"}}})
        site.create("q", container={"image": "app:1", "resources": {"requests": {"cpu": "3"}}})
        site.advance(2)
        status = site.status("q")
        assert (status["phase"], status["reason"]) == ("Failed", "OutOfcpu")
        words = "Node didn't have enough resource: cpu, requested: 3000, used: 6000, capacity: 8000"
        assert status["message"] == f"Pod was rejected: {words}"
        assert site.events("q") == [("OutOfcpu", words)]

    def test_ended_pod_releases_resources(self, site):
        heavy = {"image": "app:1", "resources": {"requests": {"cpu": "6"}}}
        site.create(container=heavy)
        site.advance(2)
        site.delete()
        site.advance(1)
        site.create("q", container=heavy)
        site.advance(2)
        assert site.status("q")["phase"] == "Running"

    def test_node_affinity_mismatch_is_refused(self, site):
        site.create(nodeSelector={"disk": "fast"})
        site.advance(1)
        assert site.status()["reason"] == "NodeAffinity"
        assert site.status()["message"] == (
            "Pod was rejected: Predicate NodeAffinity failed: node(s) didn't match Pod's "
            "node affinity/selector"
        )

    def test_taken_host_port_is_refused(self, site):
        listening = {"image": "app:1", "ports": [{"containerPort": 80, "hostPort": 80}]}
        site.create(container=listening)
        site.create("q", container=listening)
        site.advance(1)
        assert site.status("q")["reason"] == "NodePorts"

    def test_no_execute_taint_is_refused(self, site):
        taint = {"key": "broken", "effect": "NoExecute"}
        site.call(site.api.patch(NODES, "node-1", {"spec": {"taints": [taint]}}))
        site.advance(0)
        site.create()
        site.advance(1)
        assert site.status()["reason"] == "TaintToleration"
