"""Backend kind, through pytest-kind: one cluster per test run, shared by all its processes.

pytest-kind is an optional dependency under the GPL and imported only when a kind cluster is
requested.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import itertools
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from pytest_kscen.clock import WallRunner
from pytest_kscen.clusters.cluster import ClusterRefused
from pytest_kscen.clusters.kubeconfig import LiveCluster
from pytest_kscen.kube.remote import configuration_of
from pytest_kscen.objects.conditions import is_true
from pytest_kscen.objects.errors import ApiError
from pytest_kscen.objects.resources import NODES, SERVICE_ACCOUNTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


SHARE_FOLDER_PREFIX = "kscen-kind-"
PYTEST_KIND_DEFAULT_NAME = "pytest-kind"  # pytest-kind's default for --cluster-name


@dataclass(frozen=True, slots=True)
class KindOptions:
    """Options of a kind cluster, as pytest-kind defines them, and the identity of the test run that
    shares it. The first request of a run decides.
    """

    run: str = ""
    """Identity of the run, equal in all its processes: pytest-xdist's testrun_uid; empty for a
    single process.
    """
    name: str = ""
    image: str | None = None
    program: str | None = None
    kubectl: str | None = None
    keep: bool = False

    @classmethod
    def of(cls, option: Callable[[str, Any], Any], run: str = "") -> KindOptions:
        """Read the options through pytest's getoption, given as `option`; pytest-kind's may be
        missing.
        """
        name = option("cluster_name", None)
        return cls(
            run,
            "" if name in (None, PYTEST_KIND_DEFAULT_NAME) else name,
            option("kind_image", None),
            option("kind_bin", None),
            option("kind_kubectl_bin", None),
            keep=bool(option("keep_cluster", False)),
        )

    @property
    def cluster_name(self) -> str:
        return self.name or f"kscen-{self._key}"

    @property
    def folder(self) -> pathlib.Path:
        return pathlib.Path(tempfile.gettempdir()) / f"{SHARE_FOLDER_PREFIX}{self._key}"

    @property
    def _key(self) -> str:
        return self.run[:12] or str(os.getpid())


CREATING, CREATED = "making", "made"
_numbers = itertools.count()


class SharedResource:
    """Resource shared by the processes of a test run: the first user creates it, the last one
    removes it.

    A folder holds its state and a file per user, under a file lock. Users whose process is gone do
    not count. A resource that was only half created by a process that died is removed and created
    again.
    """

    def __init__(self, folder: pathlib.Path, remove: Callable[[dict[str, Any]], object]) -> None:
        self.folder = folder
        self._remove = remove
        self._user = f"user-{os.getpid()}-{_process_start_time(os.getpid())}-{next(_numbers)}"

    def hold(self) -> None:
        """Register as a user without creating the resource, so that it exists as long as
        any user.
        """
        with self._lock_held():
            self._path(self._user).touch()

    def acquire(
        self, inspect: Callable[[], dict[str, Any]], create: Callable[[], object]
    ) -> dict[str, Any]:
        """Return the facts that `inspect` found before the resource was created; removal needs only
        these. Creates the resource if no other process has.
        """
        with self._lock_held():
            state = self._state()
            if state.get("state") == CREATING:
                self._remove(state)
            if state.get("state") != CREATED:
                state = self._create(inspect(), create)
            self._path(self._user).touch()
            return state

    def _create(self, facts: dict[str, Any], create: Callable[[], object]) -> dict[str, Any]:
        self._write_state(creating := {**facts, "state": CREATING})
        try:
            create()
        except BaseException:
            self._remove(creating)
            self._path("state").unlink()
            self._remove_if_unused()
            raise
        self._write_state(created := {**facts, "state": CREATED})
        return created

    def release(self) -> None:
        with self._lock_held():
            self._path(self._user).unlink(missing_ok=True)
            self._remove_if_unused()

    def remove_if_unused(self) -> None:
        """Remove the resource if it has no users left, as after a test run that was killed."""
        with self._lock_held():
            self._remove_if_unused()

    def _remove_if_unused(self) -> None:
        for user in sorted(self.folder.glob("user-*")):
            _, pid, start_time, _ = user.name.split("-")
            if _process_start_time(int(pid)) == start_time:
                return
        try:
            if state := self._state():
                self._remove(state)
        finally:
            shutil.rmtree(self.folder)

    def _state(self) -> dict[str, Any]:
        try:
            return json.loads(self._path("state").read_text())  # type: ignore[no-any-return]
        except FileNotFoundError:
            return {}

    def _write_state(self, state: dict[str, Any]) -> None:
        self._path("state.new").write_text(json.dumps(state))
        self._path("state.new").rename(self._path("state"))

    def _path(self, name: str) -> pathlib.Path:
        return self.folder / name

    @contextlib.contextmanager
    def _lock_held(self) -> Iterator[None]:
        file = self._open_lock()
        try:
            yield
        finally:
            file.close()

    def _open_lock(self) -> IO[str]:
        """Return the locked file. The kernel releases the lock when its process dies; a lock file
        whose folder was removed meanwhile is reopened.
        """
        while True:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.folder.stat().st_uid != os.getuid():
                raise PermissionError(
                    f"{self.folder} belongs to another user: remove it, or set TMPDIR"
                )
            with contextlib.ExitStack() as undo, contextlib.suppress(FileNotFoundError):
                file = undo.enter_context(self._path("lock").open("a"))
                fcntl.flock(file, fcntl.LOCK_EX)
                if self._path("lock").stat().st_ino == os.fstat(file.fileno()).st_ino:
                    undo.pop_all()
                    return file


def _process_start_time(pid: int) -> str:
    """Return the start time of a process in kernel ticks; pids are reused, pairs with it are not.
    Empty if the process is gone.
    """
    try:
        state, *fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]


READY_TIMEOUT = 180.0  # seconds for the nodes to become ready once kind has made them
INSTALL_COMMAND = "pip install 'pytest-kscen[kind]'"


class SharedKindCluster:
    """Kind cluster of a test run, created by the first process and deleted by the last. A cluster
    that existed before under the requested name is used but never deleted.
    """

    def __init__(self, options: KindOptions, nodes: int | None = None) -> None:
        self._options = options
        self._nodes = nodes
        self._share = SharedResource(options.folder, _delete_cluster)
        self.kubeconfig = options.folder / "kubeconfig"
        try:
            from pytest_kind import KindCluster
        except ImportError as error:
            raise ClusterRefused(
                "the kind backend needs pytest-kind, which is not installed: run "
                f"`{INSTALL_COMMAND}`"
            ) from error
        self.kind = KindCluster(
            options.cluster_name,
            self.kubeconfig,
            image=options.image,
            kind_path=_named_program("--kind-bin", options.program) or _program_on_path("kind"),
            kubectl_path=_named_program("--kind-kubectl-bin", options.kubectl)
            or _program_on_path("kubectl"),
        )

    def acquire(self) -> dict[str, Any]:
        # Remove the clusters of test runs that were killed.
        own = self._options.folder
        for left in sorted(own.parent.glob(f"{SHARE_FOLDER_PREFIX}*")):
            if left != own:
                with contextlib.suppress(OSError):
                    SharedResource(left, _delete_cluster).remove_if_unused()
        facts = self._share.acquire(self._inspect, self._create)
        try:
            if self._nodes not in (None, facts["nodes"]):
                created = (
                    "as kind does by default"
                    if facts["nodes"] is None
                    else f"with {facts['nodes']} nodes"
                )
                raise ClusterRefused(  # noqa: TRY301  # undone below, whatever fails
                    f"a test run has one kind cluster, and {facts['name']!r} was made "
                    f"{created}, not with {self._nodes}: "
                    "use the same number in all tests of one run"
                )
            self.kind.create()  # it exists: this only updates pytest-kind's object
        except BaseException:
            self.release()
            raise
        return facts

    def release(self) -> None:
        self._share.release()
        for folder in (
            self.kind.path,
            self.kind.path.parent,
        ):  # pytest-kind makes them where the tests are run
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _inspect(self) -> dict[str, Any]:
        # On PATH or by --kind-bin; else pytest-kind downloads one, if it can.
        try:
            self.kind.ensure_kind()
        except OSError as error:  # what requests raises is one
            raise ClusterRefused(
                "there is no kind program on PATH, and none could be downloaded "
                f"({type(error).__name__}): "
                "install kind, or give its path with --kind-bin"
            ) from None
        program, name = str(self.kind.kind_path), self.kind.name
        is_created = name not in _run(program, "get", "clusters").stdout.splitlines()
        return {
            "name": name,
            "program": program,
            "nodes": self._nodes,
            "ours": is_created,
            "keep": self._options.keep,
        }

    def _create(self) -> None:
        program, name = str(self.kind.kind_path), self.kind.name
        if there := _run(program, "get", "kubeconfig", f"--name={name}").stdout:
            self.kubeconfig.write_text(there)
        configuration = None  # kind's default of a single node
        if self._nodes:
            workers = ["worker"] * (self._nodes - 1)
            nodes = [{"role": role} for role in ("control-plane", *workers)]
            configuration = self._options.folder / "kind.json"
            configuration.write_text(
                json.dumps(
                    {"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes}
                )
            )
        try:
            self.kind.create(configuration)
        except subprocess.CalledProcessError as error:
            raise ClusterRefused(
                f"kind created no cluster {name!r}: {' '.join(error.cmd)} ended with "
                f"{error.returncode}; "
                "see the captured output. Check that Docker is running and that "
                "--kind-bin names the right program."
            ) from error


class KindBackedCluster(LiveCluster):
    """Cluster in containers. `kind` is pytest-kind's object, for loading images and forwarding
    ports.
    """

    def __init__(
        self, options: KindOptions | None = None, *, nodes: int | None = None, seed: int | str = 0
    ) -> None:
        self._share = SharedKindCluster(options or KindOptions(), nodes)
        self.kind = self._share.kind
        self.kubeconfig = self._share.kubeconfig
        with contextlib.ExitStack() as undo:
            facts = self._share.acquire()
            undo.callback(self._share.release)
            runner = WallRunner()
            undo.callback(runner.close)
            read = functools.partial(configuration_of, self.kubeconfig)
            super().__init__("kind", runner, read, seed=seed, owned=facts["ours"])
            undo.callback(super().close)
            if not runner.until(lambda: runner.call(self._is_ready()), READY_TIMEOUT):
                raise ClusterRefused(
                    f"the kind cluster {self.kind.name!r} has nodes that were not ready "
                    f"after {READY_TIMEOUT:.0f} s"
                )
            undo.pop_all()

    async def _is_ready(self) -> bool:
        try:
            await self._api.get(SERVICE_ACCOUNTS, "default", "default")
            return all(is_true(node, "Ready") for node in (await self._api.list(NODES)).items)
        except (ApiError, OSError):
            return False

    def close(self) -> None:
        super().close()
        self._share.release()


def hold_cluster(options: KindOptions) -> Callable[[], None]:
    """Keep the run's cluster, whenever it is created, until the returned function is called."""
    share = SharedResource(options.folder, _delete_cluster)
    share.hold()
    return share.release


def _delete_cluster(facts: dict[str, Any]) -> None:
    """Delete the cluster if this run created it, unless it is complete and to be kept."""
    if facts["ours"] and not (facts["keep"] and facts["state"] == CREATED):
        _run(facts["program"], "delete", "cluster", f"--name={facts['name']}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def _named_program(flag: str, text: str | None) -> pathlib.Path | None:
    if text is None:
        return None
    path = pathlib.Path(text).expanduser().absolute()
    if not path.is_file():
        raise ClusterRefused(f"{flag}: there is no program {text!r}")
    return path


def _program_on_path(name: str) -> pathlib.Path | None:
    found = shutil.which(name)
    return pathlib.Path(found).absolute() if found else None
