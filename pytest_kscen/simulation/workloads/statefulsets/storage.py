"""The volume claims of a StatefulSet's pods: made before the pod, kept when it goes, or handed to whoever's end is theirs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.objects.errors import AlreadyExists, ApiError, conflict
from pytest_kscen.objects.resources import PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS
from pytest_kscen.simulation.workloads.owners import reference_to
from pytest_kscen.simulation.workloads.statefulsets.identity import build_claims, name_of

if TYPE_CHECKING:
    from pytest_kscen.objects.resources import Obj
    from pytest_kscen.simulation.bench import Bench


class Storage:
    """Hands for claims."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._claims = bench.informers.of(PERSISTENT_VOLUME_CLAIMS)

    async def provide(self, owner: Obj, ordinal: int) -> None:
        """Make the claims that a pod needs and does not have."""
        for claim in build_claims(owner, ordinal):
            metadata = claim["metadata"]
            there = self._claims.get(metadata["name"], metadata["namespace"])
            if there is None:
                await self._create(owner, ordinal, claim)
            elif there["metadata"].get("deletionTimestamp"):
                raise conflict(PERSISTENT_VOLUME_CLAIMS, metadata["name"], f"pvc {metadata['name']} is being deleted")

    async def _create(self, owner: Obj, ordinal: int, claim: Obj) -> None:
        what = f"Create Claim {claim['metadata']['name']} Pod {name_of(owner, ordinal)} in StatefulSet {owner['metadata']['name']}"
        references = _heirs(owner, None, condemned=False)
        owned = {**claim, "metadata": {**claim["metadata"], **({"ownerReferences": references} if references else {})}}
        try:
            await self._bench.api.create(PERSISTENT_VOLUME_CLAIMS, owned, claim["metadata"]["namespace"])
        except AlreadyExists:
            return
        except ApiError as error:
            self._bench.recorder.warning(owner, "FailedCreate", f"{what} failed error: {error.message}")
            raise
        self._bench.recorder.normal(owner, "SuccessfulCreate", f"{what} success")

    async def bequeath(self, owner: Obj, ordinal: int, pod: Obj, *, condemned: bool) -> None:
        """Write on a pod's claims whose end is theirs, as the retention policy says."""
        wanted = _heirs(owner, pod, condemned=condemned)
        heirs = {owner["metadata"]["uid"], pod["metadata"]["uid"]}
        for claim in build_claims(owner, ordinal):
            there = self._claims.get(claim["metadata"]["name"], claim["metadata"]["namespace"])
            if there is None:
                continue
            references = there["metadata"].get("ownerReferences") or []
            ours = [reference for reference in references if reference["uid"] in heirs]
            if [reference["uid"] for reference in ours] != [reference["uid"] for reference in wanted]:
                kept = [reference for reference in references if reference["uid"] not in heirs]
                metadata = {**there["metadata"], "ownerReferences": [*kept, *wanted]}
                await self._bench.api.update(PERSISTENT_VOLUME_CLAIMS, {**there, "metadata": metadata})


def _heirs(owner: Obj, pod: Obj | None, *, condemned: bool) -> list[Obj]:
    policy = owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}
    if condemned and pod and policy.get("whenScaled") == "Delete":
        return [reference_to(pod, PODS)]
    if policy.get("whenDeleted") == "Delete":
        return [reference_to(owner, STATEFUL_SETS)]
    return []
