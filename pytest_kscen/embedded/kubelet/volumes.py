"""Mount the volumes of pods: wait for bound claims, and load ConfigMaps, Secrets and the downward
API.

Contents are kept as found; a container's files are built only when it reads one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from pytest_kscen.embedded.indexes import claim_of
from pytest_kscen.embedded.kubelet.environment import (
    MissingReferenceError,
    downward_field,
    downward_resource,
    load_data,
)
from pytest_kscen.embedded.kubelet.timings import MOUNT_FIRST, MOUNT_LONGEST
from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.resources import (
    CONFIG_MAPS,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    SECRETS,
)

if TYPE_CHECKING:
    from pytest_kscen.clock import Clock
    from pytest_kscen.kube.api import Api
    from pytest_kscen.kube.events import EventRecorder
    from pytest_kscen.kube.informer import Informers
    from pytest_kscen.objects.resources import Obj

VolumeContent = dict[str, str]
TOKEN = "simulated"  # noqa: S105  # content of the simulated token file


class ContainerFiles(Mapping[str, str]):
    """Files of one container by path, computed from its mounts on first use."""

    def __init__(self, container: Obj, mount_all: Mapping[str, VolumeContent]) -> None:
        self._mounts = container.get("volumeMounts") or []
        self._mounted = mount_all
        self._files: VolumeContent | None = None

    def _load(self) -> VolumeContent:
        if self._files is None:
            files: VolumeContent = {}
            for mount in self._mounts:
                content, folder, part = (
                    self._mounted.get(mount["name"], {}),
                    mount["mountPath"].rstrip("/"),
                    mount.get("subPath"),
                )
                if part in content:
                    files[folder] = content[part]
                elif not part:
                    files |= {f"{folder}/{name}": text for name, text in content.items()}
            self._files = files
        return self._files

    def __getitem__(self, path: str) -> str:
        return self._load()[path]

    def __iter__(self) -> Iterator[str]:
        return iter(self._load())

    def __len__(self) -> int:
        return len(self._load())


class Mounter:
    """Mount volumes for all machines of a cluster. Waits for claims through the shared informer."""

    def __init__(self, api: Api, clock: Clock, informers: Informers) -> None:
        self._api = api
        self._clock = clock
        self._claims = informers.of(PERSISTENT_VOLUME_CLAIMS)
        self._volumes = informers.of(PERSISTENT_VOLUMES)
        self._waiting: dict[Ref, list[asyncio.Future[None]]] = {}

        def claim_changed(new: Obj | None, _: Obj | None) -> None:
            for future in self._waiting.pop(Ref.of(new), ()) if new else ():
                if not future.done():
                    future.set_result(None)

        self._claims.on_change(claim_changed)

    async def mount_all(
        self, pod: Obj, recorder: EventRecorder, allocatable: Obj
    ) -> dict[str, VolumeContent]:
        """Return the contents of all volumes of a pod, once all are available. Missing ones are
        retried with back-off and an Event.
        """
        found: dict[str, VolumeContent] = {}
        for volume in pod["spec"].get("volumes") or ():
            found[volume["name"]] = await self._mount(pod, volume, recorder, allocatable)
        return found

    async def _mount(
        self, pod: Obj, volume: Obj, recorder: EventRecorder, allocatable: Obj
    ) -> VolumeContent:
        delay = MOUNT_FIRST
        while True:
            try:
                if claim := claim_of(pod, volume):
                    await self._wait_until_bound(pod, volume["name"], claim, recorder)
                    return {}
                sources = (
                    volume["projected"].get("sources") or [] if "projected" in volume else [volume]
                )
                content: VolumeContent = {}
                for source in sources:
                    content |= await self._source(pod, source, allocatable)
                return content  # noqa: TRY300  # the loop ends with success
            except MissingReferenceError as error:
                recorder.warning(
                    pod,
                    "FailedMount",
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" : {error}',
                )
                await self._clock.sleep(delay)
                delay = min(delay * 2, MOUNT_LONGEST)

    async def _wait_until_bound(
        self, pod: Obj, volume: str, claim: Ref, recorder: EventRecorder
    ) -> None:
        while why := self._unbound_reason(claim):
            where = f"error processing PVC {claim.namespace}/{claim.name}: {why}"
            unmounted = (
                f"unmounted volumes=[{volume}], unattached volumes=[], failed to process "
                f"volumes=[{volume}]"
            )
            recorder.warning(
                pod, "FailedMount", f"Unable to attach or mount volumes: {unmounted}: {where}"
            )
            future = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(claim, []).append(future)
            await future

    def _unbound_reason(self, ref: Ref) -> str:
        """Return the reason for which a claim cannot be mounted, or ""."""
        claim = self._claims.objects.get(ref)
        if claim is None:
            return (
                f'failed to fetch PVC from API server: persistentvolumeclaim "{ref.name}" not found'
            )
        if claim["metadata"].get("deletionTimestamp"):
            return "PVC is being deleted"
        name = claim["spec"].get("volumeName")
        if not name or (claim.get("status") or {}).get("phase") != "Bound":
            return "PVC is not bound"
        return ""

    async def _source(self, pod: Obj, source: Obj, allocatable: Obj) -> VolumeContent:
        namespace = pod["metadata"].get("namespace", "")
        for kind, resource in (("configMap", CONFIG_MAPS), ("secret", SECRETS)):
            if reference := source.get(kind):
                data = await load_data(self._api, resource, reference, namespace) or {}
                items = reference.get("items")
                if not items:
                    return data
                missing = [item["key"] for item in items if item["key"] not in data]
                if missing and not reference.get("optional"):
                    raise MissingReferenceError(f"references non-existent config key: {missing[0]}")
                return {item["path"]: data[item["key"]] for item in items if item["key"] in data}
        if downward := source.get("downwardAPI"):
            return {
                item["path"]: (
                    downward_field(pod, item["fieldRef"]["fieldPath"])
                    if "fieldRef" in item
                    else downward_resource(
                        pod, pod["spec"]["containers"][0], item["resourceFieldRef"], allocatable
                    )
                )
                for item in downward.get("items") or ()
            }
        if token := source.get("serviceAccountToken"):
            return {token["path"]: TOKEN}
        return {}
