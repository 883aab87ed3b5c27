import re
from collections import Counter
from pathlib import Path

from spacy_spectral.base import errors


def test_every_code_has_one_message():
    source = Path(errors.__file__).read_text(encoding="utf8")
    counts = Counter(re.findall(r"^    ([SW]\d{3}) =", source, flags=re.MULTILINE))
    assert counts and [code for code, n in counts.items() if n > 1] == []
