"""Source of a running scheduler's configuration: ConfigMap `kube-scheduler` in `kube-system`.

Without the ConfigMap the default configuration holds. An invalid one is refused with a warning
event, and the last valid one stays in use.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from pytest_kscen.kube.cache import Ref
from pytest_kscen.objects.arguments import nearest
from pytest_kscen.objects.errors import NotFound
from pytest_kscen.objects.resources import CONFIG_MAPS

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_kscen.embedded.controller import ControllerContext
    from pytest_kscen.embedded.scheduler.framework.configuration import SchedulerConfiguration
    from pytest_kscen.embedded.scheduler.registry import Registry
    from pytest_kscen.objects.resources import Obj

CONFIG_MAP = Ref("kube-system", "kube-scheduler")
KEY = "config.yaml"
logger = logging.getLogger(__name__)


class ConfigurationSource:
    """Reader of the ConfigMap: calls `apply` with each valid configuration, and with `default` when
    the ConfigMap is deleted.
    """

    def __init__(
        self,
        context: ControllerContext,
        registry: Registry,
        default: SchedulerConfiguration,
        apply: Callable[[SchedulerConfiguration], None],
    ) -> None:
        self.good = default
        """Last valid configuration."""
        self._wrong = ""
        self._context = context
        self._registry = registry
        self._default = default
        self._apply = apply
        self._maps = context.informers.of(CONFIG_MAPS)
        self._maps.on_change(self._changed)

    async def synced(self) -> None:
        await self._maps.synced()

    async def latest(self) -> SchedulerConfiguration:
        """Return the ConfigMap's configuration as of now, waiting until the informer has caught up
        with it. ValueError with its mistakes if it is invalid.
        """
        try:
            live = await self._context.api.get(CONFIG_MAPS, CONFIG_MAP.name, CONFIG_MAP.namespace)
            await self._maps.reached(live["metadata"]["resourceVersion"])
        except NotFound:
            if shown := self._maps.objects.get(CONFIG_MAP):
                await self._maps.lost(CONFIG_MAP, shown["metadata"]["uid"])
        if self._wrong:
            raise ValueError(self._wrong)
        return self.good

    def _changed(self, new: Obj | None, old: Obj | None) -> None:
        one = new or old
        if (
            one is None
            or Ref.of(one) != CONFIG_MAP
            or (new and old and new.get("data") == old.get("data"))
        ):
            return
        try:
            self.good, self._wrong = (
                self.read(configuration_text(new)) if new else self._default,
                "",
            )
            self._apply(self.good)
        except ValueError as error:
            self._wrong = str(error)
            words = f"configuration refused, keeping the last valid one: {error}"
            self._context.recorder.warning(one, "InvalidConfiguration", words)
            logger.warning("%s/%s: %s", CONFIG_MAP.namespace, CONFIG_MAP.name, words)

    def read(self, written: str) -> SchedulerConfiguration:
        from pytest_kscen.embedded.scheduler.configuration_loading import load_configuration

        return load_configuration(written, self._registry)


def configuration_text(config_map: Obj) -> str:
    """Return the KubeSchedulerConfiguration in a ConfigMap; ValueError if its key is missing."""
    data = config_map.get("data") or {}
    if KEY not in data:
        raise ValueError(
            f"the ConfigMap {CONFIG_MAP.name} in {CONFIG_MAP.namespace} has no {KEY}"
            f"{nearest(KEY, data)}"
        )
    return str(data[KEY])
