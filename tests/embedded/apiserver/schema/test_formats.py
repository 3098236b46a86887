import pytest

from pytest_kscen.embedded.apiserver.schema.formats import fits_format, known_format


@pytest.mark.parametrize(
    ("name", "fitting", "other"),
    [
        ("date", "2026-02-28", "2026-02-30"),
        ("date-time", "2026-01-01t00:00:00.5+01:00", "2026-01-01 00:00:00Z"),
        ("duration", "1h30m", "soon"),
        ("duration", "2 days", "days"),
        ("uri", "https://a.b/c", "a b"),
        ("uri", "/path", "../path"),
        ("email", "a@b.c", "a"),
        ("hostname", "a-b.example.com", "-a"),
        ("ipv4", "10.0.0.010", "1.2.3"),
        ("ipv6", "::1", "1.2.3.4"),
        ("cidr", "10.0.0.0/8", "10.0.0.0/33"),
        ("mac", "01:23:45:67:89:ab", "01:23:45:67:89"),
        ("mac", "0123.4567.89ab", "0123:4567.89ab"),
        ("uuid", "123E4567-e89b-12d3-a456-426614174000", "123"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("isbn", "978-0321751041", "978-0321751042"),
        ("isbn10", "0321751043", "0321751044"),
        ("creditcard", "4111 1111 1111 1111", "4111 1111 1111 1112"),
        ("ssn", "123-45-6789", "123456789"),
        ("hexcolor", "#FFF", "#GGG"),
        ("rgbcolor", "rgb(255, 0, 1)", "rgb(256,0,0)"),
        ("byte", "YWI=", "??"),
        ("bsonobjectid", "507f1f77bcf86cd799439011", "507f"),
        ("password", "anything", None),
        ("k8s-short-name", "a-b", "a.b"),
        ("k8s-long-name", "a.b", "a..b"),
    ],
)
def test_formats(name, fitting, other):
    assert fits_format(name, fitting)
    assert other is None or not fits_format(name, other)


def test_format_applies_to_its_types_only():
    assert known_format("string", "date-time") == "date-time"
    assert known_format("integer", "int32") == "int32"
    assert (
        known_format("integer", "date")
        == known_format("string", "foo")
        == known_format("object", "date")
        == ""
    )
