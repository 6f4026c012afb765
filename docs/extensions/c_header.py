"""The directive ``c-header``: the reference of a C header, from its declarations and comments.

It reads the style of mylib.h.  A comment stands above a declaration, or above several that follow
each other without an empty line; ``/* ---- Title ---- */`` begins a section; members and values
have comments at the ends of their lines.  The text of a comment is plain: names of the header
become links, 'quoted' names become parameters.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.util.nodes import nested_parse_with_titles

COMMENT = r"/\*.*?\*/"
TITLE = re.compile(r"/\* -{4} (.*?) -+ \*/")

#: Conditions, which hold no part of the interface: the guard, the includes, `MYLIB_API`.
SKIPPED = re.compile(r"^(?:#if.*?^)?#endif[^\n]*", re.MULTILINE | re.DOTALL)

#: The roles of names, by what declares them.
ROLES = {"function": "func", "macro": "macro", "enumerator": "enumerator"}


class Item(NamedTuple):
    """One or more declarations of a kind, and the comment above them; or the title of a section."""

    kind: str
    declarations: tuple[str, ...]
    text: str
    members: tuple[tuple[str, str, str], ...] = ()  #: kind, declaration and comment of each

    def names(self) -> Iterator[tuple[str, str]]:
        """Yields the kind and the name of each thing that the item declares."""
        for declaration in self.declarations if self.kind != "section" else ():
            yield self.kind, _name(declaration)
        for kind, declaration, _ in self.members:
            if kind == "enumerator":
                yield kind, _name(declaration)


def _name(declaration: str) -> str:
    return re.sub(r"\(.*|\[.*| = .*", "", declaration).split()[-1].lstrip("*")


def _plain(comment: str) -> str:
    """Returns the text of a comment without its stars."""
    text = re.sub(r"^/\*+|\*/$", "", comment.strip())
    lines = [re.sub(r"^ \* ?", "", line).rstrip() for line in text.strip("\n").split("\n")]
    return textwrap.dedent("\n".join([lines[0].strip(), *lines[1:]])).strip()


def _members(body: str, kind: str) -> Iterator[tuple[str, str, str]]:
    """Yields the members of a struct, the values of an enum, and the remarks between them."""
    end = "," if kind == "enum" else ";"
    member = rf"(?P<code>[^/{end}]+){end}?[ ]*(?P<after>{COMMENT})?"
    for found in re.finditer(rf"\s*(?:(?P<before>{COMMENT})|{member})", body, re.DOTALL):
        if found["before"]:
            yield "remark", "", _plain(found["before"])
            continue
        # A line may declare several members of one type.
        first, *others = " ".join(found["code"].split()).split(", ")
        for code in (first, *(f"{first.rpartition(' ')[0]} {other}" for other in others)):
            if code:
                yield (
                    "enumerator" if kind == "enum" else "member",
                    code,
                    _plain(found["after"] or ""),
                )


def _item(code: str, text: str) -> Item:
    """Returns a declaration with its comment."""
    if macros := re.findall(r"#define (\w+) (\w+)", code):
        names, values = zip(*macros, strict=True)
        plural = "s" if len(values) > 1 else ""
        return Item("macro", names, f"{text}\n\nValue{plural}: {', '.join(values)}.".strip())
    if found := re.match(r"(?:typedef )?(enum|struct)\b ?(\w*) \{(.*)\}", code, re.DOTALL):
        members = tuple(_members(found[3] + "\n", found[1]))
        return Item(found[1], (found[2],) if found[2] else (), text, members)
    if found := re.match(r"typedef struct (\w+) \w+;", code):
        return Item("struct", (found[1],), text)
    functions = re.findall(r"MYLIB_API ([^;]+);", code)
    if functions:
        return Item("function", tuple(" ".join(x.split()) for x in functions), text)
    raise ValueError(f"c-header: cannot read the declaration {code!r}")


def parse(header: str) -> Iterator[Item]:
    """Yields the sections and declarations of a header, in order; the first has its preface."""
    preface = re.match(COMMENT, header, re.DOTALL)
    assert preface, "a header begins with a comment"
    yield Item("preface", (), _plain(preface[0]))
    header = SKIPPED.sub("", header[preface.end() :])
    blocks = re.split(r"\n{2,}(?![^{}]*\n\})", header.strip())
    for block in blocks:
        if found := TITLE.fullmatch(block.strip()):
            yield Item("section", (found[1],), "")
            continue
        comment = re.match(rf"\s*({COMMENT})?\s*", block, re.DOTALL)
        assert comment
        code, text = block[comment.end() :].strip(), _plain(comment[1] or "")
        # One block may declare an enum and the macro with the number of its values.
        for part in re.split(r"(?<=;)\n(?=#define)", code) if code else ():
            yield _item(part, text)
            text = ""
        if text and not code:
            yield Item("text", (), text)


class Writer:
    """Writes reStructuredText; knows which names the header declares."""

    def __init__(self, items: list[Item]) -> None:
        self.items = items
        self.kinds = {name: kind for item in items for kind, name in item.names()}

    def prose(self, text: str) -> str:
        """Returns plain text with links to what it names, and nothing else that has a meaning."""
        # reStructuredText wants an empty line before a list and after it.
        text = re.sub(r"(?m)^(?!- |  )(.+)\n(?=- )", r"\1\n\n", text)
        text = re.sub(r"(?m)^((?:- |  ).+)\n(?=[^-\s])", r"\1\n\n", text)
        return re.sub(
            r"`(?P<code>[^`]+)`|(?<!\w)'(?P<quoted>\w+)'|(?P<name>\bmylib_\w+|\bMYLIB_\w+)(?:\(\))?"
            r"|(?P<special>[*|_\\`])",
            self._mark,
            text,
        )

    def _mark(self, found: re.Match[str]) -> str:
        if name := found["name"]:
            kind = self.kinds.get(name)
            return f":c:{ROLES.get(kind, kind)}:`{name}`" if kind else f"``{found[0]}``"
        if quoted := found["quoted"]:
            return f"*{quoted}*"
        return f"``{found['code']}``" if found["code"] else "\\" + found["special"]

    def lines(self) -> Iterator[str]:
        for item in self.items:
            if item.kind == "section":
                title = item.declarations[0]
                label = re.sub(r"\W+", "-", title.lower())
                yield from (f".. _c-{label}:", "", title, "-" * len(title), "")
                continue
            indent = ""
            if item.declarations:
                mark = f".. c:{item.kind}:: "
                for declaration in item.declarations:
                    yield mark + declaration
                    mark = " " * len(mark)
                yield ""
                indent = "   "
            yield from textwrap.indent(self.prose(item.text), indent).split("\n")
            yield ""
            for kind, declaration, text in item.members:
                if kind != "remark":
                    yield f"{indent}.. c:{kind}:: {declaration}"
                    yield ""
                shift = indent if kind == "remark" else indent + "   "
                yield from textwrap.indent(self.prose(text), shift).split("\n")
                yield ""


class CHeader(Directive):
    """``.. c-header:: FILE``, relative to the folder of the documents."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        path = Path(env.srcdir, self.arguments[0]).resolve()
        env.note_dependency(str(path))
        lines = Writer(list(parse(path.read_text()))).lines()
        content = StringList([line for text in lines for line in text.split("\n")], str(path))
        section = nodes.section()
        section.document = self.state.document
        nested_parse_with_titles(self.state, content, section, self.content_offset)
        return section.children


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("c-header", CHeader)
    return {"parallel_read_safe": True}
