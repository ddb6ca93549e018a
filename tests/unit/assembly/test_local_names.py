"""Names that the public web cannot have."""

import pytest

from limpet.assembly.desks import is_local_name


@pytest.mark.parametrize(
    ("name", "local"),
    [
        ("localhost", True),
        ("app.localhost", True),
        ("router.lan", True),
        ("printer.local", True),
        ("site.test", True),
        ("nas.home.arpa", True),
        ("intranet", True),
        ("wiki.corp", True),
        ("example.org", False),
        ("home.arpa.example.org", False),
        ("arpa.org", False),
        ("1.in-addr.arpa", False),
        ("local.example", False),
        ("127.0.0.1", False),
        ("::1", False),
        ("fd00::1", False),
        ("2001:db8::1", False),
    ],
)
def test_local_names(name: str, local: bool) -> None:
    """Reserved domains and single labels; addresses are judged as what they are."""
    assert is_local_name(name) is local
