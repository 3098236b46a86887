import pytest

from pytest_kscen.clock import ActorCrashedError
from pytest_kscen.embedded.kubelet.images import simulation_program
from pytest_kscen.embedded.kubelet.images.context import canonical_image, image_names
from pytest_kscen.objects.errors import Forbidden

SHELL = {"image": "busybox:1", "command": ["sh", "-c", "sleep 1000"]}


async def run_until_stopped(container):
    container.write(f"{container.name} on {container.node}, run {container.attempt}\n")
    await container.stopping()
    container.write("bye\n")
    return 3


def ended(site, name="p"):
    state = site.container(name)["state"].get("terminated") or {}
    return state.get("exitCode"), state.get("reason")


class TestNames:
    @pytest.mark.parametrize(
        ("image", "names"),
        [
            ("nginx", ("nginx", "nginx", "nginx")),
            ("nginx:1.29", ("nginx:1.29", "nginx", "nginx")),
            ("reg.io:5000/a/b:1", ("reg.io:5000/a/b:1", "reg.io:5000/a/b", "b")),
            ("a/b@sha256:00", ("a/b@sha256:00", "a/b", "b")),
        ],
    )
    def test_names_of_image(self, image, names):
        assert image_names(image) == names

    @pytest.mark.parametrize(
        ("image", "name"),
        [
            ("nginx", "docker.io/library/nginx:latest"),
            ("team/app:1", "docker.io/team/app:1"),
            ("localhost/app", "localhost/app:latest"),
            ("reg.io:5000/app@sha256:00", "reg.io:5000/app@sha256:00"),
        ],
    )
    def test_canonical_name_of_image(self, image, name):
        assert canonical_image(image) == name


class TestBuiltIn:
    @pytest.mark.parametrize(
        ("container", "code"),
        [
            ({"image": "busybox"}, 0),
            ({"image": "alpine:3", "args": ["sh", "-c", "exit 4"]}, 4),
            ({"image": "anything", "command": ["/bin/sh", "-ec", "false; exit 9"]}, 1),
            ({"image": "anything", "command": ["sleep", "2"]}, 0),
            ({"image": "debian", "command": ["/usr/bin/python3"]}, 127),
            ({"image": "busybox", "command": ["sh", "-c", "echo $0 $1", "x", "y"]}, 0),
            ({"image": "busybox", "command": ["sh", "/nowhere.sh"]}, 127),
        ],
    )
    def test_image_with_shell_runs_command(self, site, container, code):
        site.create(container=container, restartPolicy="Never")
        site.advance(5)
        assert ended(site)[0] == code

    @pytest.mark.parametrize(
        "container",
        [{"image": "pause"}, {"image": "nginx", "command": ["nginx", "-g", "daemon off;"]}],
    )
    def test_image_without_shell_runs_until_stopped(self, site, container):
        site.create(container=container)
        site.advance(3600)
        assert site.container()["restartCount"] == 0
        assert site.status()["phase"] == "Running"


class TestRegistered:
    def test_program_by_image(self, site):
        site.images.register(run_until_stopped, image="server")
        site.create(container={"image": "reg.io/server:2"})
        site.create("other")
        site.advance(3)
        assert site.log() == "c on node-1, run 0\n"
        assert site.log("other") == ""
        site.delete()
        site.advance(0.2)
        assert site.log() == "c on node-1, run 0\nbye\n"
        assert ended(site) == (3, "Error")

    def test_program_by_container_and_pod(self, site):
        site.images.register(run_until_stopped, container="main", pod="web-*", namespace="default")
        containers = [{"name": "main", "image": "app:1"}, {"name": "side", "image": "app:1"}]
        site.create("web-1", containers=containers)
        site.advance(3)
        assert (site.log("web-1", "main"), site.log("web-1", "side")) == (
            "main on node-1, run 0\n",
            "",
        )

    def test_last_registered_program_takes_precedence(self, site):
        async def quick(container):
            container.exit_reason = "OOMKilled"
            return 137

        site.images.register(run_until_stopped)
        take_back = site.images.register(quick)
        site.create(restartPolicy="Never")
        site.advance(3)
        assert ended(site) == (137, "OOMKilled")
        take_back()
        site.create("q")
        site.advance(3)
        assert site.status("q")["phase"] == "Running"

    def test_program_crash_ends_its_container_only(self, site):
        async def broken(container):
            raise ValueError("no such thing")

        site.images.register(broken)
        site.create(restartPolicy="Never")
        site.advance(3)
        assert ended(site) == (1, "Error")
        assert site.log() == "ValueError: no such thing\n"

    @pytest.mark.parametrize(
        "error", [Forbidden("no"), TimeoutError("nobody there"), LookupError("not today")]
    )
    def test_api_error_in_simulation_program_ends_container(self, site, error):
        async def refused(container):
            raise error

        site.images.register(simulation_program(refused, LookupError))
        site.create(restartPolicy="Never")
        site.advance(3)
        assert ended(site) == (1, "Error")

    def test_bug_in_simulation_program_is_actor_crash(self, site):
        async def mistaken(container):
            raise ValueError("no such thing")

        site.images.register(simulation_program(mistaken))
        site.create(restartPolicy="Never")
        told = (
            r"^the actor kubelets crashed: SimulationError\(\"the simulated c in p failed: "
            r"ValueError\('no such thing'\)\"\)$"
        )
        with pytest.raises(ActorCrashedError, match=told):
            site.advance(3)

    def test_program_reports_readiness(self, site):
        async def slow(container):
            container.set_ready(False)
            await container.sleep(30)
            container.set_ready(True)
            await container.stopping()
            return 0

        site.images.register(slow)
        site.create()
        site.advance(5)
        assert not site.container()["ready"]
        assert site.until(lambda: site.container()["ready"]) == 31.5

    def test_termination_message_is_reported(self, site):
        async def talkative(container):
            container.termination_message = "checksum 42"
            return 0

        site.images.register(talkative)
        site.create(restartPolicy="Never")
        site.advance(3)
        assert site.container()["state"]["terminated"]["message"] == "checksum 42"


class TestAnnotations:
    def run(self, site, annotations, seconds=10):
        site.create(annotations=annotations, restartPolicy="Never")
        site.advance(seconds)
        return ended(site)

    def test_exit_code_annotation(self, site):
        assert self.run(site, {"kscen.io/exit-code": "4"}) == (4, "Error")

    def test_duration_annotation(self, site):
        assert self.run(site, {"kscen.io/exit-after": "30s"}) == (None, None)
        site.advance(25)
        assert ended(site) == (0, "Completed")
        assert site.container()["state"]["terminated"]["finishedAt"] == "2026-01-01T00:00:31Z"

    def test_log_annotation_changes_log_only(self, site):
        assert self.run(site, {"kscen.io/log": "hello\nthere"}) == (None, None)
        assert site.log() == "hello\nthere\n"

    def test_annotation_of_one_container(self, site):
        annotations = {"kscen.io/exit-code": "1", "kscen.io/exit-code.side": "2"}
        containers = [{"name": "c", "image": "app:1"}, {"name": "side", "image": "app:1"}]
        site.create(annotations=annotations, restartPolicy="Never", containers=containers)
        site.advance(5)
        codes = [
            site.container(container=name)["state"]["terminated"]["exitCode"]
            for name in ("c", "side")
        ]
        assert codes == [1, 2]

    def test_invalid_annotation_is_logged(self, site):
        assert self.run(site, {"kscen.io/exit-code": "many"}) == (1, "Error")
        words = (
            "kscen.io/exit-code: 'many' must be a whole number, or several with commas between them"
        )
        assert site.log() == f"ValueError: {words}\n"

    def test_container_stops_on_request(self, site):
        site.create(annotations={"kscen.io/exit-after": "1h"})
        site.advance(5)
        site.delete()
        site.advance(0.2)
        assert ended(site) == (0, "Completed")


class TestLogs:
    def test_log_tail(self, site):
        site.create(
            container={
                **SHELL,
                "command": ["sh", "-c", "echo a; sleep 5; echo b; echo -n c; sleep 1000"],
            }
        )
        site.advance(10)
        assert site.log() == "a\nb\nc"
        assert site.log(tailLines=2) == "b\nc"
        assert site.log(tailLines=0) == ""
        assert site.log(sinceSeconds=6) == "b\nc"
        assert site.log(sinceTime="2026-01-01T00:00:05Z") == "b\nc"
        assert site.log(limitBytes=3) == "a\nb"
        assert site.log(timestamps="true").splitlines()[0] == "2026-01-01T00:00:01.500000Z a"

    def test_missing_log_is_refused(self, site):
        with pytest.raises(
            Exception, match='container "c" in pod "p" is waiting to start: ContainerCreating'
        ):
            site.log()
        site.create()
        site.advance(3)
        with pytest.raises(
            Exception, match='previous terminated container "c" in pod "p" not found'
        ):
            site.log(previous="true")

    def test_log_is_removed_with_pod(self, site):
        site.create(container={**SHELL, "command": ["sh", "-c", "echo old; sleep 1000"]})
        site.advance(3)
        site.delete(grace_period=0)
        site.create(container={**SHELL, "command": ["sh", "-c", "echo new; sleep 1000"]})
        site.advance(10)
        assert site.log() == "new\n"
