"""What words look like: the form they are looked up by, and signatures of those that are not known."""

_QUOTES = {"``": '"', "''": '"', "“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "`": "'"}


def form(word: str) -> str:
    """RETURNS (str): A word as it is looked up: quotes of treebanks and of typesetters are plain ones."""
    return _QUOTES.get(word, word).replace("’", "'")


def look(word: str) -> str:
    """RETURNS (str): What kind of characters a word has."""
    kind = "x"
    if not any(map(str.isalpha, word)):
        kind = "d" if any(map(str.isdigit, word)) else "."
    elif word.isupper() and len(word) > 1:
        kind = "XX"
    elif word[0].isupper():
        kind = "Xx"
    elif not word.islower():
        kind = "xX"
    if kind not in "d." and any(map(str.isdigit, word)):
        kind += "d"
    return kind + ("-" if "-" in word[1:] else "")


def signatures(word: str) -> tuple[str, str, str]:
    """RETURNS (Tuple[str, str, str]): Signatures of a word, from the vaguest to the most exact."""
    kind, lower = look(word), word.lower()
    return (
        kind,
        f"{kind}|{lower[-2:]}",
        f"{kind}|{lower[-3:]}" if len(word) > 3 else f"{kind}|{lower}|",
    )
