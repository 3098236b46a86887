"""A scenario that is played, as a test holds it: added to while it is on, asked when it is over, even when it has gone."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import yaml

from pytest_kscen.kube.requests import JSON_PATCH
from pytest_kscen.kube.waiting import wait_for
from pytest_kscen.objects.errors import BadRequest, Invalid
from pytest_kscen.objects.scenarios import FAILED, OVER, PAUSED, SCENARIOS, phase_of
from pytest_kscen.scenario.analysis.result import Result
from pytest_kscen.scenario.files import ScenarioRefused, with_ids
from pytest_kscen.scenario.writes import NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from pytest_kscen.clusters.cluster import Cluster
    from pytest_kscen.journal import Journal
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.scenario.analysis.timeline import Timeline

PATIENCE = 24 * 3600.0
STILL = 10.0  # seconds of cluster time after which one that is Paused goes on no more


@dataclass(eq=False)
class Played:
    """One scenario."""

    cluster: Cluster
    journal: Journal
    name: str
    was_ended: bool = False
    """Before it was done, because it was over for whoever had put it on."""
    _looked_at: bool = field(default=False, repr=False)
    _added: list[Obj] = field(default_factory=list, repr=False)
    _last: Obj | None = field(default=None, repr=False)
    """As it was when it was over."""
    _result: tuple[int, Result] | None = field(default=None, repr=False)
    """With the length of the journal that it was worked out from."""

    @property
    def live(self) -> Obj:
        """The Scenario as the API has it, or as it was at its end."""
        self._hand_in()
        return self._seen()

    def _seen(self) -> Obj:
        if self._last is None:
            live = self.cluster.runner.call(self.cluster.api(NAME).get(SCENARIOS, self.name))
            self._last = live if phase_of(live) in OVER else None
            return live
        return self._last

    @property
    def phase(self) -> str:
        self._looked_at = True
        return phase_of(self.live)

    @property
    def is_over(self) -> bool:
        return phase_of(self.live) in OVER

    @property
    def has_failed_unseen(self) -> bool:
        """It went wrong by itself, and nobody has asked."""
        return not self._looked_at and not self.was_ended and phase_of(self.live) == FAILED

    @property
    def message(self) -> str:
        """Why it is in this phase."""
        return str((self.live.get("status") or {}).get("message") or "")

    @property
    def timeline(self) -> Timeline:
        return self.result.timeline

    @property
    def result(self) -> Result:
        """What it has come to so far; one and the same for as long as nothing happens."""
        if self._result is None or self._result[0] != self.journal.entries:
            self._result = self.journal.entries, Result.of_journal(self.journal, self.name)
        return self._result[1]

    # --- while it is on ---

    def create(self, obj: Obj, *, step: int, id: str = "") -> None:
        """`obj` may be a model of the official client's, which says its apiVersion and kind."""
        self._add(step, id, createOperation={"object": _plain(obj)})

    def patch(
        self, api_version: str, kind: str, name: str, patch: Obj | str, *, step: int, namespace: str = "", id: str = ""
    ) -> None:
        text = patch if isinstance(patch, str) else yaml.safe_dump(patch)
        self._add(step, id, patchOperation={**_target(api_version, kind, name, namespace), "patch": text})

    def delete(self, api_version: str, kind: str, name: str, *, step: int, namespace: str = "", id: str = "") -> None:
        self._add(step, id, deleteOperation=_target(api_version, kind, name, namespace))

    def done(self, *, step: int, id: str = "") -> None:
        """The scenario has succeeded when this step is finished."""
        self._add(step, id, doneOperation={})

    def _add(self, step: int, id: str, **operation: Any) -> None:
        """It is handed in with all others that come before somebody asks or waits: a step is past once it has begun."""
        if phase_of(seen := self._seen()) in OVER:
            message = (seen.get("status") or {}).get("message")
            why = f" ({message})" if message else ""
            what = f"operation {id!r}" if id else f"an operation of step {step}"
            raise ScenarioRefused(f"the scenario {self.name!r} is {phase_of(seen)}{why}: {what} cannot be added to it any more")
        entry = {"step": step, **({"id": id} if id else {}), **operation}
        try:
            self._write([*self._added, entry], dry_run=True)
        except (Invalid, BadRequest) as error:
            why = with_ids(error.message, [*seen["spec"].get("operations", ()), *self._added, entry])
            raise ScenarioRefused(f"the scenario {self.name!r} cannot have this operation: {why}") from None
        self._added.append(entry)

    def _hand_in(self) -> None:
        if added := self._added:
            self._added = []
            self._write(added)

    def _write(self, operations: list[Obj], **options: Any) -> None:
        patch = [{"op": "add", "path": "/spec/operations/-", "value": each} for each in operations]
        api = self.cluster.api(NAME)
        write = api.patch(SCENARIOS, self.name, patch, patch_type=JSON_PATCH, field_validation="Strict", **options)
        self.cluster.runner.call(write)

    def until_paused(self) -> None:
        """Until all that it was given so far is done, or it is over."""
        self._until(_rests)

    def until_over(self) -> None:
        """A ValueError if it is Paused, and nobody gives it anything to do."""
        while not self.is_over:
            self._until(_rests)
            if not self.is_over and not self._goes_on():
                raise ScenarioRefused(
                    f"the scenario {self.name!r} is {self.phase}: {self.message}. Add done(step=...), or wait with until_paused()"
                )

    def until_ended(self) -> None:
        """Somebody ends it by force."""
        self._until(lambda scenario: phase_of(scenario) in OVER)

    def _goes_on(self) -> bool:
        """Whether it does not stay Paused: somebody else may add to it, or spoil it."""
        try:
            self._until(lambda scenario: not _rests(scenario) or phase_of(scenario) in OVER, STILL)
        except TimeoutError:
            return False
        return True

    def _until(self, condition: Callable[[Obj], bool], timeout: float = PATIENCE) -> None:
        self._hand_in()
        runner, api = self.cluster.runner, self.cluster.api(NAME)
        if self._last is not None:
            return
        runner.call(
            wait_for(
                *(api, runner.clock, SCENARIOS, self.name),
                condition=lambda scenario: scenario is None or condition(scenario),
                timeout=timeout,
            )
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.until_paused()


def _plain(obj: Any) -> Any:
    """What is an object of the official client's, as JSON has it."""
    if not hasattr(obj, "openapi_types"):
        return obj
    from kubernetes.client import ApiClient

    return ApiClient().sanitize_for_serialization(obj)  # type: ignore[no-untyped-call]


def _rests(scenario: Obj) -> bool:
    status = scenario.get("status") or {}
    is_paused = phase_of(scenario) == PAUSED and status.get("observedGeneration", 0) >= scenario["metadata"]["generation"]
    return is_paused or phase_of(scenario) in OVER


def _target(api_version: str, kind: str, name: str, namespace: str) -> Obj:
    meta = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"typeMeta": {"apiVersion": api_version, "kind": kind}, "objectMeta": meta}
