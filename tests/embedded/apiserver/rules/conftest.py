import pytest

from pytest_kscen.kube.api import MERGE_PATCH
from pytest_kscen.objects.errors import Invalid


class RulesServer:
    """Server that returns the object it makes of a request, or the causes of its refusal."""

    namespace = "rules"

    def __init__(self, site):
        self.site = site

    def made(self, resource, body):
        return self.site.ask("create", resource, body=body, namespace=self.namespace)

    def changed(self, resource, name, patch, subresource=""):
        parts = {"subresource": subresource, "patch_type": MERGE_PATCH, "namespace": self.namespace}
        return self.site.patch(resource, name, patch, **parts)

    def create(self, resource, body):
        return _causes(lambda: self.made(resource, body))

    def change(self, resource, name, patch, subresource=""):
        return _causes(lambda: self.changed(resource, name, patch, subresource))

    @property
    def warnings(self):
        return self.site.warnings


def _causes(write):
    """Return the causes in the order of the message, without duplicates."""
    try:
        write()
    except Invalid as refusal:
        told = (
            f"{cause['field']}: {cause['message']}" for cause in refusal.status["details"]["causes"]
        )
        return list(dict.fromkeys(told))
    return []


@pytest.fixture
def judge(site):
    return RulesServer(site)
