"""The Scenario resource as data classes, with their JSON form and structural schema, and its
scheduler configuration.
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import yaml

from pytest_kscen.objects.scenarios import GROUP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_kscen.objects.resources import Obj


T = TypeVar("T")
Reader = typing.Callable[[Any], Any]

ANYTHING: Obj = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
AN_OBJECT: Obj = {**ANYTHING, "x-kubernetes-embedded-resource": True}
A_NAME: Obj = {"type": "string", "minLength": 1}
PLAIN: dict[Any, Obj] = {
    str: {"type": "string"},
    int: {"type": "integer", "format": "int32"},
    bool: {"type": "boolean"},
}


def part(
    json: str,
    about: str = "",
    *,
    schema: Obj | None = None,
    required: bool = False,
    keys: Sequence[str] = (),
    whole: bool = False,
    **field: Any,
) -> Any:
    """Declare a field of a model. `schema` replaces what its type implies.

    `keys` identify the elements of a list; a `whole` value has one owner.
    """
    merging: Obj = (
        {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [*keys]} if keys else {}
    )
    merging |= {"x-kubernetes-map-type": "atomic"} if whole else {}
    metadata = {
        "json": json,
        "about": about,
        "schema": schema,
        "required": required,
        "merging": merging,
    }
    return dataclasses.field(metadata=metadata, **field)


def schema_of(model: type) -> Obj:
    """Return the structural schema of a data class, as the CustomResourceDefinition and the
    validation of files use it; descriptions come from its fields.
    """
    properties = {
        field.metadata["json"]: {
            **(field.metadata["schema"] or _schema(hint)),
            **({"description": field.metadata["about"]} if field.metadata["about"] else {}),
            **field.metadata["merging"],
        }
        for field, hint in _parts(model)
    }
    required = [field.metadata["json"] for field, _ in _parts(model) if field.metadata["required"]]
    return {
        "type": "object",
        "properties": properties,
        **({"required": required} if required else {}),
    }


def _schema(hint: Any) -> Obj:
    hint = _without_none(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (list, tuple):
        return {"type": "array", "items": _schema(arguments[0])}
    if origin is dict:
        return (
            {"type": "object", "additionalProperties": _schema(arguments[1])}
            if arguments[1] is not Any
            else ANYTHING
        )
    # a class it is
    if dataclasses.is_dataclass(hint):
        return schema_of(hint)  # type: ignore[arg-type]
    return PLAIN[hint]


def read(model: type[T], obj: Obj | None) -> T:
    """Build a model from an object that the API has accepted, so its types are right."""
    obj = obj or {}
    values = {}
    for name, json, reader in _readers(model):  # type: ignore[arg-type]  # a class can be hashed
        value = obj.get(json)
        if value is not None:
            values[name] = reader(value) if reader else value
    return model(**values)


@functools.cache
def _readers(model: type) -> list[tuple[str, str, Reader | None]]:
    return [(field.name, field.metadata["json"], _reader(hint)) for field, hint in _parts(model)]


def _reader(hint: Any) -> Reader | None:
    """Return the function that converts a value to this type, or None if it stays as it is."""
    hint = _without_none(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    inner = (
        _reader(arguments[-1 if origin is dict else 0]) if origin in (list, tuple, dict) else None
    )
    if dataclasses.is_dataclass(hint):
        return functools.partial(read, hint)  # type: ignore[arg-type]  # a class it is
    if inner is None:
        return origin if origin in (list, tuple) else None
    if origin is dict:
        return lambda value: {key: inner(each) for key, each in value.items()}
    return lambda value: origin(inner(each) for each in value)


def written(model: Any) -> Any:
    """Return a model as JSON, without fields that are not set: the inverse of `read`."""
    if dataclasses.is_dataclass(model):
        parts = {
            field.metadata["json"]: getattr(model, field.name)
            for field in dataclasses.fields(model)
        }
        return {name: written(value) for name, value in parts.items() if value is not None}
    if isinstance(model, list | tuple):
        return [written(each) for each in model]
    if isinstance(model, dict):
        return {key: written(value) for key, value in model.items()}
    return model


@functools.cache
def _parts(model: type) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = typing.get_type_hints(model)
    return [(field, hints[field.name]) for field in dataclasses.fields(model)]


def _without_none(hint: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(each for each in typing.get_args(hint) if each is not type(None))
    return hint


@dataclass(frozen=True, slots=True)
class Controller:
    name: str = part("name", required=True, default="")


@dataclass(frozen=True, slots=True)
class ControllerSet:
    enabled: list[Controller] = part(
        "enabled", "Controllers that take part, in this order.", default_factory=list
    )
    disabled: list[Controller] = part(
        "disabled",
        'Controllers that do nothing; "*" alone is all of them.',
        keys=("name",),
        default_factory=list,
    )


@dataclass(frozen=True, slots=True)
class Controllers:
    """Controllers that take part in the scenario: simulated controllers, and controllers that react
    before them.
    """

    before: ControllerSet | None = part(
        "presimulationControllers",
        "Those that react before a simulated controller goes on. All, unless disabled.",
        default=None,
    )
    simulated: ControllerSet = part(
        "simulationControllers",
        "The targets of the simulation, run one after the other.",
        required=True,
        default=ControllerSet(),
    )


@dataclass(frozen=True, slots=True)
class TypeMeta:
    """API version and kind of the object that an operation patches or deletes."""

    api_version: str = part("apiVersion", required=True, default="")
    kind: str = part("kind", required=True, default="")


@dataclass(frozen=True, slots=True)
class ObjectMeta:
    """Name and namespace of the object that an operation patches or deletes."""

    name: str = part("name", required=True, default="")
    namespace: str = part("namespace", default="")


@dataclass(frozen=True, slots=True)
class CreateOperation:
    """Operation that creates an object, together with its status if it has one."""

    object: dict[str, Any] = part(
        "object", "The object to be created.", schema=AN_OBJECT, required=True, default_factory=dict
    )
    options: dict[str, Any] | None = part("createOptions", schema=ANYTHING, default=None)


@dataclass(frozen=True, slots=True)
class PatchOperation:
    """Operation that patches an object, by a strategic merge patch unless a type is given."""

    type_meta: TypeMeta = part("typeMeta", required=True, default=TypeMeta())
    object_meta: ObjectMeta = part("objectMeta", required=True, default=ObjectMeta())
    patch: str = part("patch", "The patch, as JSON or YAML.", required=True, default="")
    patch_type: str = part(
        "patchType", "Its media type; a strategic merge patch, by default.", default=""
    )
    options: dict[str, Any] | None = part("patchOptions", schema=ANYTHING, default=None)


@dataclass(frozen=True, slots=True)
class DeleteOperation:
    """Operation that deletes an object, with the options of the API's deletion."""

    type_meta: TypeMeta = part("typeMeta", required=True, default=TypeMeta())
    object_meta: ObjectMeta = part("objectMeta", required=True, default=ObjectMeta())
    options: dict[str, Any] | None = part("deleteOptions", schema=ANYTHING, default=None)


@dataclass(frozen=True, slots=True)
class DoneOperation:
    """Operation that ends the scenario: it has succeeded when the step is finished."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation at a major step, identified by its id. Exactly one of the four kinds is set, which
    admission checks.
    """

    id: str = part(
        "id",
        "Filled in by admission where it is missing.",
        schema=A_NAME,
        required=True,
        default="",
    )
    step: int = part("step", "The major step at which it is done.", required=True, default=0)
    create: CreateOperation | None = part("createOperation", whole=True, default=None)
    patch: PatchOperation | None = part("patchOperation", whole=True, default=None)
    delete: DeleteOperation | None = part("deleteOperation", whole=True, default=None)
    done: DoneOperation | None = part("doneOperation", whole=True, default=None)

    @property
    def kinds(self) -> list[str]:
        return [
            kind
            for kind in ("create", "patch", "delete", "done")
            if getattr(self, kind) is not None
        ]


@dataclass(frozen=True, slots=True)
class ScenarioSpec:
    operations: list[Operation] = part(
        "operations", "More may be added while it runs.", keys=("id",), default_factory=list
    )
    controllers: Controllers = part("controllers", required=True, default=Controllers())


@dataclass(frozen=True, slots=True, order=True)
class ScenarioStep:
    """Simulated time: the major step of the operations, and the minor step that the simulated
    controllers have reached in it. Ordered, and equal to the pair of its numbers.
    """

    major: int = part("major", required=True, default=0)
    minor: int = part("minor", required=True, default=0)

    def __iter__(self) -> Any:
        return iter((self.major, self.minor))

    def __eq__(self, other: object) -> bool:
        return (
            tuple(self) == other
            if isinstance(other, tuple)
            else type(other) is ScenarioStep and tuple(self) == tuple(other)
        )

    def __hash__(self) -> int:
        return hash((self.major, self.minor))


@dataclass(frozen=True, slots=True)
class StepStatus:
    """Current step of the scenario, its phase, and the simulated controller whose turn it is."""

    step: ScenarioStep = part("step", default=ScenarioStep())
    phase: str = part("phase", default="")
    running: str = part("runningSimulationController", default="")


@dataclass(frozen=True, slots=True)
class OperationResult:
    """Operation or change as it was made, with the object as the API returned it afterwards."""

    operation: dict[str, Any] = part("operation", schema=ANYTHING, default_factory=dict)
    result: dict[str, Any] | None = part("result", schema=ANYTHING, default=None)


@dataclass(frozen=True, slots=True)
class PodRef:
    """Reference to a pod by name, namespace and uid, as events of the timeline have it."""

    name: str = part("name", default="")
    namespace: str = part("namespace", default="")
    uid: str = part("uid", default="")


@dataclass(frozen=True, slots=True)
class PodScheduled:
    """Event of a pod that the scheduler has bound to its node."""

    pod: PodRef = part("pod", default=PodRef())
    bound_to: str = part("boundTo", default="")


@dataclass(frozen=True, slots=True)
class PodUnscheduled:
    """Event of a pod that is deleted from its node in favour of one of higher priority."""

    pod: PodRef = part("pod", default=PodRef())
    bound_to: str = part("boundTo", default="")
    preempted_by: str = part("preemptedBy", default="")


@dataclass(frozen=True, slots=True)
class PodAttempted:
    """Event of a scheduling attempt for a pod, with its node or message, and the results of each
    plugin.
    """

    pod: PodRef = part("pod", default=PodRef())
    attempt: int | None = part("attempt", "1 for the pod's first.", default=None)
    node: str | None = part("node", "The place that was found.", default=None)
    message: str | None = part("message", "Why there was none.", default=None)
    results: dict[str, Any] | None = part(
        "results", "By the annotation's name.", schema=ANYTHING, default=None
    )


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Event of the timeline. Exactly one of the fields after the controller is set."""

    id: str = part(
        "id",
        "That of the operation, or one that was made up for what a controller did.",
        required=True,
        default="",
    )
    step: ScenarioStep = part("step", required=True, default=ScenarioStep())
    controller: str | None = part(
        "controller", "Controller that did it; empty for an operation.", default=None
    )
    create: OperationResult | None = part("create", default=None)
    patch: OperationResult | None = part("patch", default=None)
    delete: OperationResult | None = part("delete", default=None)
    done: OperationResult | None = part("done", default=None)
    pod_scheduled: PodScheduled | None = part("podScheduled", default=None)
    pod_unscheduled: PodUnscheduled | None = part("podUnscheduled", default=None)
    pod_attempted: PodAttempted | None = part("podAttempted", default=None)


@dataclass(frozen=True, slots=True)
class ScenarioResult:
    """Result of a scenario: the version that played it, and the events of the timeline by major
    step.
    """

    simulator_version: str = part("simulatorVersion", default="")
    timeline: dict[str, list[TimelineEvent]] = part(
        "timeline", "By major step.", default_factory=dict
    )
    note: str | None = part(
        "note", "What is missing from the timeline, and where the whole is.", default=None
    )


@dataclass(frozen=True, slots=True)
class ScenarioStatus:
    """Status of a scenario: its phase and message, the current step, and the result as far as it is
    written.
    """

    phase: str = part("phase", default="")
    message: str | None = part("message", default=None)
    generation: int = part(
        "observedGeneration", "Of the spec with which it came so far.", default=0
    )
    step_status: StepStatus = part("stepStatus", default=StepStatus())
    result: ScenarioResult | None = part("scenarioResult", default=None)


@dataclass(frozen=True, slots=True)
class Model:
    """Scenario resource: its fields in addition to apiVersion, kind and metadata."""

    spec: ScenarioSpec = part("spec", required=True, default=ScenarioSpec())
    status: ScenarioStatus = part("status", default=ScenarioStatus())


ANNOTATION = f"{GROUP}/scheduler-configuration"
KIND = "KubeSchedulerConfiguration"


class Scheduling(Protocol):
    """Cluster's scheduler, which a scenario may give a configuration of its own.

    The Scenario carries it as an annotation; without one, the cluster's configuration holds.
    """

    async def adopt(self, written: str) -> None:
        """Use this KubeSchedulerConfiguration, or the cluster's if it is empty; raises
        ValueError for an invalid one.
        """

    async def revert(self) -> None:
        """Restore the cluster's configuration at the end of the scenario."""


def configuration_of(scenario: Obj) -> str:
    return str((scenario["metadata"].get("annotations") or {}).get(ANNOTATION) or "")


def configured(scenario: Obj, configuration: Obj) -> Obj:
    """Return a copy of the Scenario with this scheduler configuration as a YAML annotation."""
    metadata = scenario["metadata"]
    annotations = {
        **(metadata.get("annotations") or {}),
        ANNOTATION: yaml.safe_dump(configuration, sort_keys=False),
    }
    return {**scenario, "metadata": {**metadata, "annotations": annotations}}
