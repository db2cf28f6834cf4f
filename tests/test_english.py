"""Plain English: words that readers stumble over stay out of texts, and leave the folders that still hold some.

Counted are comments, docstrings and sentences in strings of the product, and the prose of its documents. Code in
backticks, identifiers and strings of one word (keys, names) are not counted, nor are the tests.
``python tests/test_english.py`` prints the table of today, ``python tests/test_english.py FOLDER`` each place.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
WORDS = {
    "told": r"told|tells?|telling",  # reported, recorded, printed
    "whoever": r"whoever|whatever",  # any node that, the client that
    "nobody": r"nobody|somebody|anybody",  # no node, a client, another user
    "in vain": r"in vain",  # failed, lost
    "beside": r"beside",  # next to, in addition to
    "go on": r"(?:go|goes|going|went|gone) on",  # continue, resume
    "leave out": r"(?:leave|leaves|leaving|left) out",  # out of scope, skip, remove
    "anew": r"anew",  # again
    "so many": r"so many",  # name the number
    "Promises:": r"promises:",  # of a module: guarantees
}
LEFT = {
    "clusters/targets": 1,
    "harness/pipeline": 2,
}
"""Folder or document → words that are still to be rewritten. A number may only fall; at 0 its line goes."""
FOLDERS = ("harness", "checkers", "nemesis", "workloads", "clusters", "docs")
OLD_WORDS = {"harness/core/earlier_rules.py"}
"""Files that hold words of earlier versions on purpose."""

_FINDERS = {name: re.compile(rf"\b(?:{words})(?![\w-])", re.IGNORECASE) for name, words in WORDS.items()}
_COMMENT = re.compile(r"(?:^|(?<=\s))#[ :].*$")
_CODE = re.compile(r"```.*?```|``.*?``|`[^`\n]*`", re.DOTALL)


def surfaces():
    """Every file that is counted."""
    files = [path for folder in FOLDERS for kind in ("py", "md") for path in (ROOT / folder).rglob(f"*.{kind}")]
    return sorted([path for path in files if name_of(path) not in OLD_WORDS] + list(ROOT.glob("*.md")))


def name_of(path):
    return path.relative_to(ROOT).as_posix()


def place_of(path):
    """The line of the table that a file belongs to: a document of the top level, or two levels of folders."""
    parts = path.relative_to(ROOT).parts
    return "/".join(parts[:1] if len(parts) <= 2 else parts[:2])


def prose(path):
    """Line number and text of everything that people read in a file."""
    text = path.read_text(encoding="utf-8")
    if path.name == "CHANGELOG.md":  # what was said of earlier versions stays
        text = "## ".join(re.split(r"^## ", text, flags=re.MULTILINE)[:2])
    if path.suffix == ".md":
        yield 1, text
        return
    if not any(finder.search(text) for finder in _FINDERS.values()):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield node.lineno, node.value
    for number, line in enumerate(text.splitlines(), start=1):
        if (comment := _COMMENT.search(line)) is not None:
            yield number, comment[0]


def found(path):
    """Line number and name of each such word."""
    for line, text in prose(path):
        bare = _CODE.sub(lambda code: "\n" * code[0].count("\n"), text)
        for name, finder in _FINDERS.items():
            for match in finder.finditer(bare):
                yield line + bare.count("\n", 0, match.start()), name


def table():
    """Place → count of each word."""
    out = {}
    for path in surfaces():
        counts = Counter(name for _, name in found(path))
        if counts:
            out.setdefault(place_of(path), Counter()).update(counts)
    return out


@pytest.fixture(scope="module")
def counted():
    return {place: counts.total() for place, counts in table().items()}


def test_the_words_do_not_come_back(counted):
    worse = {place: (count, LEFT.get(place, 0)) for place, count in counted.items() if count > LEFT.get(place, 0)}
    assert not worse, "python tests/test_english.py FOLDER shows the places; CONTRIBUTING.md names better words"


def test_a_place_that_is_clean_is_not_on_the_list(counted):
    assert set(LEFT) <= set(counted)


def test_identifiers_code_and_keys_are_not_counted(tmp_path):
    path = tmp_path / "some.py"
    path.write_text('told = {"told": 1}  # it `told` us\n"""``told`` and more"""\nx = f"{told} tells it"\n')
    assert list(found(path)) == [(3, "told")]


if __name__ == "__main__":
    for where, row in sorted(table().items()):
        if len(sys.argv) == 1:
            print(f'    "{where}": {row.total()},  # {", ".join(f"{name} {n}" for name, n in row.most_common())}')
    for file in surfaces() if len(sys.argv) > 1 else ():
        if place_of(file) == sys.argv[1]:
            for number, word in found(file):
                print(f"{name_of(file)}:{number}: {word}")
