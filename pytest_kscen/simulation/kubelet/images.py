"""Images on their way to a machine: there already, pulled, or looked for again and again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_kscen.simulation.images.names import canonical
from pytest_kscen.simulation.kubelet import timings
from pytest_kscen.simulation.kubelet.backoff import Backoff, go_duration
from pytest_kscen.simulation.kubelet.node_status import IMAGE_SIZE

if TYPE_CHECKING:
    from pytest_kscen.simulation.kubelet.container import ContainerLife


async def have_image(container: ContainerLife) -> None:
    """Until the container's image is on its machine."""
    image, images = container.record.spec["image"], container.host.machine.images
    policy = container.record.spec.get("imagePullPolicy", "IfNotPresent")
    if policy == "Never":
        await _wait_for(container, image)
    if image in images and policy != "Always":
        container.say("Pulled", f'Container image "{image}" already present on machine and can be accessed by the pod')
    else:
        await _pull(container, image, timings.PULL_AGAIN if image in images else timings.PULL)


async def _pull(container: ContainerLife, image: str, takes: float) -> None:
    failures = Backoff()
    container.say("Pulling", f'Pulling image "{image}"')
    await container.host.clock.sleep(takes)
    while not container.host.images.can_be_pulled(image):
        await _fail(container, image, failures)
        await container.host.clock.sleep(takes)
    container.host.machine.images[image] = None
    lasted = f"{go_duration(takes)} ({go_duration(takes)} including waiting)"
    container.say("Pulled", f'Successfully pulled image "{image}" in {lasted}. Image size: {IMAGE_SIZE} bytes.')


async def _fail(container: ContainerLife, image: str, failures: Backoff) -> None:
    failures.next(container.host.clock.now())
    name = canonical(image)
    why = f'failed to pull and unpack image "{name}": failed to resolve reference "{name}": not found'
    container.complain("Failed", f'Failed to pull image "{image}": {why}')
    container.complain("Failed", "Error: ErrImagePull")
    container.wait("ErrImagePull", why)
    await container.host.clock.sleep(timings.NOTICE)
    container.say("BackOff", f'Back-off pulling image "{image}"')
    container.complain("Failed", "Error: ImagePullBackOff")
    container.wait("ImagePullBackOff", f'Back-off pulling image "{image}": ErrImagePull: {why}')
    await container.host.clock.sleep(failures.delay - timings.NOTICE)


async def _wait_for(container: ContainerLife, image: str) -> None:
    """An image that may not be pulled, but may have come with another pod."""
    words = f'Container image "{image}" is not present with pull policy of Never'
    while image not in container.host.machine.images:
        container.complain("ErrImageNeverPull", words)
        container.complain("Failed", "Error: ErrImageNeverPull")
        container.wait("ErrImageNeverPull", words)
        await container.host.clock.sleep(timings.CONFIG_AGAIN)
