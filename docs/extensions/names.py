"""The directive ``names``: the reference of public names of the package; and the role ``name``.

A table of the names with their first sentences comes first, then the documentation of each, which
is its docstring.  Operations bring their further names, as the package's table has them.

The role links to a name of the package.  It is the default: docstrings write `pkg.add`, `Array.sum`
and the arguments of a function alike, and arguments only become emphasized.
"""

from __future__ import annotations

import inspect
import operator
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.parsers.rst.states import Inliner
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.roles import XRefRole

import pkg
from pkg._table import ALIASES

#: The documentation of values, which have no docstrings.
VALUES = {
    "__array_api_version__": "The version of the array API standard that the namespace follows.",
    "__version__": "The version of the package and of the library, as a string.",
    "operations": "The names of the element-wise operations, as a tuple of strings.",
    "ufuncs": "The module that holds the NumPy ufunc of each operation.",
    "finfo": "NumPy's ``finfo``: the limits of floating-point types.",
    "iinfo": "NumPy's ``iinfo``: the limits of integer types.",
    "e": "The base of the natural logarithm.",
    "inf": "Infinity.",
    "nan": "Not a number.",
    "newaxis": "None: as an index, a new axis of size 1.",
    "pi": "The ratio of a circle's circumference to its diameter.",
}


def further_names(name: str) -> list[str]:
    """Returns the other public names of the same thing."""
    names = [other for other, first in ALIASES.items() if first == name]
    return names + (["concat"] if name == "concatenate" else [])


def summary(name: str) -> str:
    """Returns the first sentence of the documentation of a name."""
    thing = getattr(pkg, name)
    if isinstance(thing, np.dtype):
        return f"The element type ``{thing}``, a NumPy dtype."
    text = VALUES.get(name) or inspect.getdoc(thing) or ""
    if isinstance(thing, pkg.core.Operation):  # the signature comes before
        text = text.partition("\n\n")[2].replace(", element by element.", ".").replace("*", r"\*")
        text = text.replace("|", r"\|")
    sentence = re.match(r".*?\.(?=\s|$)", text, re.DOTALL)
    assert sentence, f"{name} has no documentation"
    return " ".join(sentence[0].split())


def described(name: str) -> Iterator[str]:
    """Yields the reStructuredText that documents a name, and the names that mean the same."""
    thing = getattr(pkg, name)
    if isinstance(thing, type) and thing.__module__ == "pkg":
        yield from (f".. autoclass:: pkg.{name}", "   :members:", "")
    elif callable(thing) and getattr(thing, "__module__", "") in ("pkg", "pkg.core"):
        yield from (f".. autofunction:: pkg.{name}", "")
    else:
        yield from (f".. py:data:: pkg.{name}", "", f"   {summary(name)}", "")
    others = [f"pkg.{other}" for other in further_names(name)]
    if others:
        yield f".. py:data:: {others[0]}"
        yield from (f"             {other}" for other in others[1:])
        yield from ("", f"   Another name of :py:obj:`pkg.{name}`.", "")


class Names(Directive):
    """``.. names::``, and the names of one page, separated by spaces."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        names = " ".join(self.content).split()
        lines = [".. list-table::", "   :align: left", "   :widths: auto", ""]
        for name in names if len(names) > 1 else ():
            others = ", ".join(f"``{other}``" for other in further_names(name))
            lines.append(f"   * - :py:obj:`~pkg.{name}`")
            lines.append(f"     - {summary(name)}{f'  Also {others}.' if others else ''}")
        lines = [*lines, ""] if len(names) > 1 else []
        for name in names:
            lines += described(name)
        node = nodes.Element()
        node.document = self.state.document
        self.state.nested_parse(StringList(lines, "names"), self.content_offset, node)
        return node.children


def role(
    kind: str, raw: str, text: str, line: int, inliner: Inliner, *unused: Any
) -> tuple[list[nodes.Node], list[nodes.system_message]]:
    """Returns a link to the name, if the package has it, else the text with emphasis."""
    path = text.removeprefix("pkg.").removesuffix("()")
    try:
        operator.attrgetter(path)(pkg)
    except AttributeError:
        return [nodes.emphasis(raw, text)], []
    return XRefRole()("py:obj", raw, f"{text} <pkg.{path}>", line, inliner)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("names", Names)
    app.add_role("name", role)
    return {"parallel_read_safe": True}
