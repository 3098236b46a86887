from pytest_kscen.objects.resources import CONFIG_MAPS, NAMESPACES, SERVICE_ACCOUNTS


def test_namespace_receives_account_and_certificates(world):
    world.create(NAMESPACES, "new")
    assert world.names(SERVICE_ACCOUNTS, "new") == ["default"]
    assert world.names(CONFIG_MAPS, "new") == ["kube-root-ca.crt"]


def test_deleted_account_and_certificates_are_recreated(world):
    world.delete(SERVICE_ACCOUNTS, "default")
    assert world.names(SERVICE_ACCOUNTS) == ["default"]
    world.patch(CONFIG_MAPS, "kube-root-ca.crt", {"data": {"ca.crt": "mine"}})
    assert world.get(CONFIG_MAPS, "kube-root-ca.crt")["data"]["ca.crt"] != "mine"


def test_terminating_namespace_receives_none(world):
    world.create(NAMESPACES, "old")
    world.delete(NAMESPACES, "old")
    world.advance(10)
    assert world.names(SERVICE_ACCOUNTS, "old") == []
