"""The candidates of a srcset."""

import time

import pytest

from limpet.parser.srcset import candidates


@pytest.mark.parametrize(
    ("srcset", "found"),
    [
        ("a", ["a"]),
        ("a, b", ["a", "b"]),
        ("a 1x,b 2x", ["a", "b"]),
        ("a 1x , b 2x", ["a", "b"]),
        ("a,b", ["a,b"]),
        ("w_1,h_2/a 1x, w_3,h_4/a 2x", ["w_1,h_2/a", "w_3,h_4/a"]),
        ("a, b,, c", ["a", "b", "c"]),
        (", ,a", ["a"]),
        ("\n a\t100w,\n b\t200w\n", ["a", "b"]),
        ("a (1x, no) 2x, b", ["a", "b"]),
        ("a (1x, b", ["a"]),
        ("data:image/gif;base64,AA 1x, b 2x", ["data:image/gif;base64,AA", "b"]),
        ("", []),
        (" , ", []),
        ("a 100w 50h future(1, 2), b", ["a", "b"]),
    ],
)
def test_candidates(srcset: str, found: list[str]) -> None:
    """Commas separate only behind white space, a descriptor or at the end of a reference; parentheses hide them."""
    assert list(candidates(srcset)) == found


@pytest.mark.parametrize("piece", ["a, ", "a (", "(", ",", " ", "a ", "a (),", ", "])
def test_time_is_linear(piece: str) -> None:
    """A megabyte costs what its bytes cost."""
    start = time.process_time()
    for _ in candidates("a " + piece * (1_000_000 // len(piece))):
        pass
    assert time.process_time() - start < 2
