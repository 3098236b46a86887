import pytest

from pytest_kscen.objects.resources import CONFIG_MAPS, PERSISTENT_VOLUME_CLAIMS, SECRETS


@pytest.fixture
def make(site):
    """Create an object in the default namespace; return a function that changes its status."""

    def make_(kind, name, **parts):
        resource = {
            "ConfigMap": CONFIG_MAPS,
            "Secret": SECRETS,
            "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
        }[kind]
        obj = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name, "namespace": "default"},
            **parts,
        }
        made = site.call(site.api.create(resource, obj))
        return lambda status: site.call(
            site.api.update(resource, {**made, "status": status}, subresource="status")
        )

    return make_
