"""How large the package is: files and lines of every room, by kind.

python scripts/count_lines.py
"""

import ast
from collections import Counter
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "spacy_spectral"
KINDS = ("files", "lines", "code", "docstring", "comment", "blank")


def room_of(path: Path) -> str:
    """spacy_spectral/models/shag/grammar.py -> models/shag"""
    parts = path.relative_to(PACKAGE).parts
    if len(parts) == 1:
        return "top"
    return "/".join(parts[:2]) if parts[0] == "models" and len(parts) > 2 else parts[0]


def docstring_lines(path: Path, lines: list[str]) -> set[int]:
    """Numbers of the lines of docstrings; of kernels, those between triple quotes at the start of a line."""
    found: set[int] = set()
    if path.suffix == ".py":
        for node in ast.walk(ast.parse("\n".join(lines))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
                found |= set(range(node.lineno - 1, (node.end_lineno or node.lineno)))
        return found
    inside = False
    for number, line in enumerate(lines):
        quotes = line.count('"""')
        if inside or (quotes and line.lstrip().startswith('"""')):
            found.add(number)
            inside ^= quotes % 2 == 1
    return found


def count(path: Path) -> Counter[str]:
    lines = path.read_text("utf8").splitlines()
    counts = Counter(files=1, lines=len(lines))
    docstrings = docstring_lines(path, lines)
    for number, line in enumerate(map(str.strip, lines)):
        is_comment = line.startswith(("/*", "*", "//") if path.suffix == ".h" else "#")
        blank, comment = ("blank" if not line else ""), ("comment" if is_comment else "")
        counts["docstring" if number in docstrings else blank or comment or "code"] += 1
    return counts


def main() -> None:
    rooms: dict[str, Counter[str]] = {}
    for path in sorted(PACKAGE.rglob("*")):
        if path.suffix in (".py", ".pyx", ".pxd", ".h"):
            rooms.setdefault(room_of(path), Counter()).update(count(path))
    rooms = dict(sorted(rooms.items())) | {"total": sum(rooms.values(), Counter())}
    print(f"{'room':24}" + "".join(f"{kind:>11}" for kind in KINDS))
    for room, counts in rooms.items():
        print(f"{room:24}" + "".join(f"{counts[kind]:11,}" for kind in KINDS))


if __name__ == "__main__":
    main()
