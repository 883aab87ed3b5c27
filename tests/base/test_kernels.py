import re
from pathlib import Path

import pytest

import spacy_spectral

PACKAGE = Path(spacy_spectral.__file__).parent
SOURCES = sorted(str(path.relative_to(PACKAGE)) for path in PACKAGE.rglob("*.pyx"))
# a memoryview, its name, and neither "not None" nor a default value
OPEN = re.compile(r"\w+\[[:, 1]+\] \w+(?!\w)(?! not None)(?!\s*=)")


def signatures(source):
    for found in re.finditer(r"^ *def \w+\(", source, flags=re.MULTILINE):
        depth, end = 1, found.end()
        while depth:
            depth += (source[end] in "([") - (source[end] in ")]")
            end += 1
        yield source[found.start() : end]


@pytest.mark.parametrize("path", SOURCES)
def test_memoryviews_that_python_gives_are_not_none(path):
    """None is a memoryview of nothing, and kernels do not look."""
    source = (PACKAGE / path).read_text(encoding="utf8")
    assert [s for s in signatures(source) if OPEN.search(s)] == []


def test_open_memoryviews_are_seen():
    (own,) = signatures("def f(\n    const int[:, ::1] a not None, double[::1] b, int c=1,\n):\n")
    assert OPEN.findall(own) == ["double[::1] b"]
