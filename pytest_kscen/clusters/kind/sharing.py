"""A thing that the processes of one test run share: the first to come makes it, the last to go removes it.

A folder holds its state and a file for each user; a lock keeps them apart. Users that died without a word do not count,
and what was half made when its maker died is removed before it is made again.
"""

from __future__ import annotations

import contextlib
import fcntl
import itertools
import json
import os
import pathlib
import shutil
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MAKING, MADE = "making", "made"
_numbers = itertools.count()


class Share:
    """One process's part in it."""

    def __init__(self, folder: pathlib.Path, remove: Callable[[dict[str, Any]], object]) -> None:
        self.folder = folder
        self._remove = remove
        self._user = f"user-{os.getpid()}-{_birth_of(os.getpid())}-{next(_numbers)}"

    def hold(self) -> None:
        """Count as a user without a need for the thing yet: it outlives those who come and go meanwhile."""
        with self._locked():
            self._path(self._user).touch()

    def enter(self, look: Callable[[], dict[str, Any]], make: Callable[[], object]) -> dict[str, Any]:
        """The facts about the thing, as `look` found them before it was made; its removal needs no more."""
        with self._locked():
            state = self._state()
            if state.get("state") == MAKING:
                self._remove(state)
            if state.get("state") != MADE:
                state = self._make(look(), make)
            self._path(self._user).touch()
            return state

    def _make(self, facts: dict[str, Any], make: Callable[[], object]) -> dict[str, Any]:
        self._note(making := {**facts, "state": MAKING})
        try:
            make()
        except BaseException:
            self._remove(making)
            self._path("state").unlink()
            self._end_if_last()
            raise
        self._note(made := {**facts, "state": MADE})
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
        """The kernel gives the lock back when its holder dies. One whose folder was removed meanwhile guards nothing."""
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
    return _birth_of(int(pid)) == birth


def _birth_of(pid: int) -> str:
    """When a process began, in the kernel's ticks: pids come again, this does not. Nothing for the dead."""
    try:
        state, *fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if state == "Z" else fields[18]
