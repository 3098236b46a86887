"""The kind backend, through pytest-kind: one cluster for a test run, however many processes it has.

pytest-kind is an extra and under the GPL; it is imported when a kind cluster is asked for, and
never before."""

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
    """A request; the first one of a run decides."""

    run: str = ""
    """The same for all processes of a run: pytest-xdist's testrun_uid; a single process needs
    none.
    """
    name: str = ""
    image: str | None = None
    program: str | None = None
    kubectl: str | None = None
    keep: bool = False

    @classmethod
    def of(cls, option: Callable[[str, Any], Any], run: str = "") -> KindOptions:
        """As the command line has it; `option` is pytest's getoption, which may not know pytest-
        kind.
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
    def called(self) -> str:
        return self.name or f"kscen-{self._key}"

    @property
    def folder(self) -> pathlib.Path:
        """Where the processes of the run meet."""
        return pathlib.Path(tempfile.gettempdir()) / f"{SHARE_FOLDER_PREFIX}{self._key}"

    @property
    def _key(self) -> str:
        return self.run[:12] or str(os.getpid())


CREATING, CREATED = "making", "made"
_numbers = itertools.count()


class SharedResource:
    """One process's part in it."""

    def __init__(self, folder: pathlib.Path, remove: Callable[[dict[str, Any]], object]) -> None:
        self.folder = folder
        self._remove = remove
        self._user = f"user-{os.getpid()}-{_process_start_time(os.getpid())}-{next(_numbers)}"

    def hold(self) -> None:
        """Count as a user without a need for the thing yet: it outlives those who come and go
        meanwhile.
        """
        with self._locked():
            self._path(self._user).touch()

    def enter(
        self, look: Callable[[], dict[str, Any]], make: Callable[[], object]
    ) -> dict[str, Any]:
        """The facts about the thing, as `look` found them before it was made; its removal needs
        no more.
        """
        with self._locked():
            state = self._state()
            if state.get("state") == CREATING:
                self._remove(state)
            if state.get("state") != CREATED:
                state = self._make(look(), make)
            self._path(self._user).touch()
            return state

    def _make(self, facts: dict[str, Any], make: Callable[[], object]) -> dict[str, Any]:
        self._note(making := {**facts, "state": CREATING})
        try:
            make()
        except BaseException:
            self._remove(making)
            self._path("state").unlink()
            self._end_if_last()
            raise
        self._note(made := {**facts, "state": CREATED})
        return made

    def leave(self) -> None:
        with self._locked():
            self._path(self._user).unlink(missing_ok=True)
            self._end_if_last()

    def sweep(self) -> None:
        """End it if nobody is left: what a test run that was killed had to leave behind."""
        with self._locked():
            self._end_if_last()

    def _end_if_last(self) -> None:
        users = sorted(self.folder.glob("user-*"))
        if any(_is_alive(user.name) for user in users):
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

    def _note(self, state: dict[str, Any]) -> None:
        self._path("state.new").write_text(json.dumps(state))
        self._path("state.new").rename(self._path("state"))

    def _path(self, name: str) -> pathlib.Path:
        return self.folder / name

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        file = self._lock()
        try:
            yield
        finally:
            file.close()

    def _lock(self) -> IO[str]:
        """The kernel gives the lock back when its holder dies.

        One whose folder was removed meanwhile guards nothing.
        """
        while True:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if self.folder.stat().st_uid != os.getuid():
                raise PermissionError(f"{self.folder} belongs to somebody else")
            with contextlib.ExitStack() as undo, contextlib.suppress(FileNotFoundError):
                file = undo.enter_context(self._path("lock").open("a"))
                fcntl.flock(file, fcntl.LOCK_EX)
                if self._path("lock").stat().st_ino == os.fstat(file.fileno()).st_ino:
                    undo.pop_all()
                    return file


def _is_alive(user: str) -> bool:
    _, pid, birth, _ = user.split("-")
    return _process_start_time(int(pid)) == birth


def _process_start_time(pid: int) -> str:
    """When a process began, in the kernel's ticks: pids come again, this does not.

    Nothing for the dead.
    """
    try:
        state, *fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]


READY_TIMEOUT = 180.0  # seconds for the nodes to become ready once kind has made them
INSTALL_COMMAND = "pip install 'pytest-kscen[kind]'"


class SharedKindCluster:
    """The run's cluster: made by who enters first, removed when the last has left."""

    def __init__(self, wish: KindOptions, nodes: int | None = None) -> None:
        self._wish = wish
        self._nodes = nodes
        self._share = SharedResource(wish.folder, _delete_cluster)
        self.kubeconfig = wish.folder / "kubeconfig"
        try:
            from pytest_kind import KindCluster
        except ImportError as error:
            raise ClusterRefused(
                "the kind backend needs pytest-kind, which is not installed: run "
                f"`{INSTALL_COMMAND}`"
            ) from error
        self.kind = KindCluster(
            wish.called,
            self.kubeconfig,
            image=wish.image,
            kind_path=_named_program("--kind-bin", wish.program) or _program_on_path("kind"),
            kubectl_path=_named_program("--kind-kubectl-bin", wish.kubectl)
            or _program_on_path("kubectl"),
        )

    def enter(self) -> dict[str, Any]:
        # Remove the clusters of test runs that were killed.
        own = self._wish.folder
        for left in sorted(own.parent.glob(f"{SHARE_FOLDER_PREFIX}*")):
            if left != own:
                with contextlib.suppress(OSError):
                    SharedResource(left, _delete_cluster).sweep()
        facts = self._share.enter(self._look, self._make)
        try:
            if self._nodes not in (None, facts["nodes"]):
                made = (
                    "as kind does by default"
                    if facts["nodes"] is None
                    else f"with {facts['nodes']} nodes"
                )
                raise ClusterRefused(  # noqa: TRY301  # undone below, whatever fails
                    f"a test run has one kind cluster, and {facts['name']!r} was made "
                    f"{made}, not with {self._nodes}: "
                    "let the tests of one run ask for the same number"
                )
            self.kind.create()  # it is there: this makes pytest-kind's object know it
        except BaseException:
            self.leave()
            raise
        return facts

    def leave(self) -> None:
        self._share.leave()
        for folder in (
            self.kind.path,
            self.kind.path.parent,
        ):  # pytest-kind makes them where the tests are run
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _look(self) -> dict[str, Any]:
        # On PATH or by --kind-bin; else pytest-kind downloads one, if it can.
        try:
            self.kind.ensure_kind()
        except OSError as error:  # what requests raises is one
            raise ClusterRefused(
                "there is no kind program on PATH, and none could be downloaded "
                f"({type(error).__name__}): "
                "install kind, or say where it is with --kind-bin"
            ) from None
        program, name = str(self.kind.kind_path), self.kind.name
        ours = name not in _run(program, "get", "clusters").stdout.splitlines()
        return {
            "name": name,
            "program": program,
            "nodes": self._nodes,
            "ours": ours,
            "keep": self._wish.keep,
        }

    def _make(self) -> None:
        program, name = str(self.kind.kind_path), self.kind.name
        if there := _run(program, "get", "kubeconfig", f"--name={name}").stdout:
            self.kubeconfig.write_text(there)
        try:
            self.kind.create(self._configuration())
        except subprocess.CalledProcessError as error:
            raise ClusterRefused(
                f"kind made no cluster {name!r}: {' '.join(error.cmd)} ended with "
                f"{error.returncode}; "
                "what it said is in the captured output. Is Docker running, and is "
                "--kind-bin the right program?"
            ) from error

    def _configuration(self) -> pathlib.Path | None:
        """The control plane's node and workers, so many in all; kind's own default is a single
        one that does both.
        """
        if not self._nodes:
            return None
        nodes = [{"role": role} for role in ("control-plane", *["worker"] * (self._nodes - 1))]
        path = self._wish.folder / "kind.json"
        path.write_text(
            json.dumps({"kind": "Cluster", "apiVersion": "kind.x-k8s.io/v1alpha4", "nodes": nodes})
        )
        return path


class KindBackedCluster(LiveCluster):
    """A `Cluster`. `kind` is pytest-kind's object, for loading images and forwarding ports."""

    def __init__(
        self, wish: KindOptions | None = None, *, nodes: int | None = None, seed: int | str = 0
    ) -> None:
        self._share = SharedKindCluster(wish or KindOptions(), nodes)
        self.kind = self._share.kind
        self.kubeconfig = self._share.kubeconfig
        with contextlib.ExitStack() as undo:
            facts = self._share.enter()
            undo.callback(self._share.leave)
            runner = WallRunner()
            undo.callback(runner.close)
            read = functools.partial(configuration_of, self.kubeconfig)
            super().__init__("kind", runner, read, seed=seed, owned=facts["ours"])
            undo.callback(super().close)
            if not runner.until(lambda: runner.call(self._is_ready()), READY_TIMEOUT):
                raise ClusterRefused(
                    f"the kind cluster {self.kind.name!r} has nodes that are not ready "
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
        self._share.leave()


def hold_cluster(wish: KindOptions) -> Callable[[], None]:
    """Keep the run's cluster, whenever it is made, until what this returns is called."""
    share = SharedResource(wish.folder, _delete_cluster)
    share.hold()
    return share.leave


def _delete_cluster(facts: dict[str, Any]) -> None:
    """Delete what we made, unless it is whole and shall be kept."""
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
