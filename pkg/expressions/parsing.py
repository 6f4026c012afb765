"""Parses texts to graphs with Python's `ast`; it never runs any part of a text.

Only arithmetic passes: names, numbers, operators, comparisons, and calls of the functions below.
Anything else raises a SyntaxError that points at it.
"""

from __future__ import annotations

import ast
from typing import Any

from .._table import ALIASES, OPERATIONS
from .graph import FURTHER, OPERATORS, REDUCTIONS, Builder, Graph, Reduction

#: The longest text.
MAX_TEXT = 1 << 16

_FILENAME = "<expression>"

#: Python's parser has room for shorter texts; for others it may raise MemoryError.
_SURE_OF_ROOM = 100

_BINARY = {node: name for name, (_, node, _) in OPERATORS.items()}
_UNARY = {ast.USub: "negative", ast.UAdd: "positive", ast.Invert: "invert"}

#: Name in the text -> function of the graph, and its number of operands.
FUNCTIONS: dict[str, tuple[str, int]] = {
    **{name: (name, operation.nin) for name, operation in OPERATIONS.items()},
    **{name: (name, count) for name, count in FURTHER.items() if name != "raised"},
    **{alias: (name, OPERATIONS[name].nin) for alias, name in ALIASES.items()},
    "copy": ("copy", 1),
}

#: The attributes that are functions of the value.
_ATTRIBUTES = frozenset({"real", "imag"})

#: Hints for mistakes that are common.
_HINTS: list[tuple[tuple[type[ast.AST], ...], str]] = [
    (
        (ast.Attribute,),
        "attributes are not allowed, except .real and .imag; expressions have names, numbers and "
        "functions",
    ),
    ((ast.Subscript,), "indexing is not supported; index the array before"),
    (
        (ast.BoolOp,),
        "'and' and 'or' are not supported; use & and |, or logical_and() and logical_or()",
    ),
    ((ast.IfExp,), "'if' is not supported; use where(condition, x, y)"),
    ((ast.NamedExpr,), "assignment is not supported"),
    (
        (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
        "comprehensions are not supported",
    ),
    ((ast.Lambda,), "functions cannot be defined here"),
    ((ast.Tuple, ast.List, ast.Set, ast.Dict), "only names and numbers are operands"),
    ((ast.Starred,), "'*' before an operand is not supported"),
    ((ast.JoinedStr,), "strings are not supported"),
]


class _Parser:
    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = text.splitlines() or [""]
        self.builder = Builder()
        self.is_of_numbers = False

    def error(self, message: str, node: ast.AST | None = None) -> SyntaxError:
        if node is None or not hasattr(node, "lineno"):
            return SyntaxError(message, (_FILENAME, 1, 1, self.lines[0]))

        def column(line: int, offset: int) -> int:  # `ast` counts bytes
            return len(self.lines[line - 1].encode()[:offset].decode(errors="ignore")) + 1

        located: Any = node
        line, end = located.lineno, located.end_lineno
        return SyntaxError(
            message,
            (
                *(_FILENAME, line, column(line, located.col_offset), self.lines[line - 1]),
                *(end, column(end, located.end_col_offset)),
            ),
        )

    def tree(self) -> ast.expr:
        if not self.text:
            raise self.error("the expression is empty")
        try:
            return ast.parse(self.text, _FILENAME, "eval").body
        except SyntaxError as error:
            if not error.lineno:
                raise self.error(error.msg) from None
            if error.text is not None:
                error.text = error.text.rstrip("\n")
            raise error from None
        except (RecursionError, MemoryError) as error:
            if isinstance(error, MemoryError) and len(self.text) < _SURE_OF_ROOM:
                raise  # memory is short
            raise self.error(
                "Python's parser has no room for the expression: it is nested too deeply, or a "
                "chain of operators is too long; put parentheses around parts of the chain"
            ) from None
        except ValueError as error:  # null characters, lone surrogates
            raise self.error(str(error)) from None

    def graph(self) -> Graph:
        root = self.tree()
        called = {id(tree.func) for tree in ast.walk(root) if isinstance(tree, ast.Call)}
        self.is_of_numbers = all(
            id(tree) in called for tree in ast.walk(root) if isinstance(tree, ast.Name)
        )
        if (
            isinstance(root, ast.Call)
            and isinstance(root.func, ast.Name)
            and root.func.id in REDUCTIONS
        ):
            operand, reduction = self.reduction(root, root.func.id)
            return self.builder.graph(self.expression(operand), reduction)
        return self.builder.graph(self.expression(root))

    # ---- Reductions ----

    def reduction(self, call: ast.Call, name: str) -> tuple[ast.expr, Reduction]:
        given: dict[str, ast.expr] = dict(zip(("axis", "keepdims"), call.args[1:], strict=False))
        for keyword in call.keywords:
            if keyword.arg not in ("axis", "keepdims") or keyword.arg in given:
                what = "**" if keyword.arg is None else repr(keyword.arg)
                raise self.error(f"{name}() takes axis and keepdims, not {what}", keyword)
            given[keyword.arg] = keyword.value
        if not call.args or len(call.args) > 3 or isinstance(call.args[0], ast.Starred):
            raise self.error(f"{name}() takes an expression, axis and keepdims", call)
        axis = None if "axis" not in given else self.axes(name, given["axis"])
        keepdims = False
        if "keepdims" in given:
            flag = given["keepdims"]
            if not isinstance(flag, ast.Constant) or flag.value not in (False, True):
                raise self.error(f"{name}(): keepdims must be True or False", flag)
            keepdims = bool(flag.value)
        return call.args[0], Reduction(name, axis, keepdims)

    def axes(self, name: str, node: ast.expr) -> int | tuple[int, ...] | None:
        try:
            axis = ast.literal_eval(node)  # only literals pass, and they are not run either
        except (ValueError, TypeError, MemoryError, RecursionError):
            axis = "?"
        axes = axis if isinstance(axis, tuple) else (axis,)
        if axis is not None and not all(type(one) is int and abs(one) <= 64 for one in axes):
            hint = f"; {name}imum(a, b) is of two arrays" if name in ("min", "max") else ""
            raise self.error(f"{name}(): axis must be an int or a tuple of ints{hint}", node)
        result: int | tuple[int, ...] | None = axis
        return result

    # ---- Element by element ----

    def expression(self, root: ast.expr) -> int:
        """Returns the node for a tree, operands first; its own stack allows deep trees."""
        work: list[tuple[ast.expr, str | None]] = [(root, None)]
        results: list[int] = []
        while work:
            tree, function = work.pop()
            if function is None:
                function, operands = self.visit(tree, results)
                if function is not None:
                    work.append((tree, function))
                    work += [(operand, None) for operand in reversed(operands)]
                continue
            count = len(self.operands(tree))
            operands_of_graph = results[len(results) - count :]
            del results[len(results) - count :]
            if isinstance(tree, ast.Compare):
                operands_of_graph = [self.comparison(tree, operands_of_graph)]
            elif function != "copy":
                operands_of_graph = [self.call(tree, function, operands_of_graph)]
            results += operands_of_graph
        return results[0]

    def call(self, tree: ast.expr, function: str, operands: list[int]) -> int:
        try:
            return self.builder.call(function, *operands)
        except (ArithmeticError, ValueError, TypeError) as error:
            if self.is_of_numbers:  # Python computes these, and raises its own errors
                raise error from None
            text = error.args[-1] if error.args else error  # a chain may begin with a number
            raise self.error(str(text), tree) from None

    def comparison(self, tree: ast.Compare, operands: list[int]) -> int:
        """Returns the node of a comparison; for a chain, whether all its pairs are true."""
        result = None
        for op, a, b in zip(tree.ops, operands, operands[1:], strict=False):
            pair = self.call(tree, _BINARY[type(op)], [a, b])
            result = pair if result is None else self.call(tree, "bitwise_and", [result, pair])
        assert result is not None
        return result

    @staticmethod
    def operands(tree: ast.expr) -> list[ast.expr]:
        """Returns the operands of a tree that has passed `visit`."""
        if isinstance(tree, ast.BinOp):
            return [tree.left, tree.right]
        if isinstance(tree, ast.UnaryOp):
            return [tree.operand]
        if isinstance(tree, ast.Compare):
            return [tree.left, *tree.comparators]
        if isinstance(tree, ast.Attribute):
            return [tree.value]
        return tree.args if isinstance(tree, ast.Call) else []

    def visit(self, tree: ast.expr, results: list[int]) -> tuple[str | None, list[ast.expr]]:
        """Returns the function of a tree and its operands; adds a name or a number to `results`."""
        function: str | None = None
        if isinstance(tree, ast.Name):
            try:
                results.append(self.builder.input(tree.id))
            except ValueError as error:
                raise self.error(str(error), tree) from None
        elif isinstance(tree, ast.Constant):
            results.append(self.constant(tree))
        elif isinstance(tree, ast.BinOp):
            function = _BINARY.get(type(tree.op))
            if function is None:
                raise self.error(
                    "this operator is not supported; supported are + - * / // % ** & | ^ << >> "
                    "and comparisons",
                    tree,
                )
        elif isinstance(tree, ast.UnaryOp):
            function = _UNARY.get(type(tree.op))
            if function is None:
                raise self.error("'not' is not supported; use ~, or logical_not()", tree)
        elif isinstance(tree, ast.Compare):
            functions = [_BINARY.get(type(op)) for op in tree.ops]
            if None in functions:
                raise self.error(
                    "this comparison is not supported; supported are == != < <= > >=", tree
                )
            function = functions[0]
        elif isinstance(tree, ast.Call):
            function = self.function(tree)
        elif isinstance(tree, ast.Attribute) and tree.attr in _ATTRIBUTES:
            function = tree.attr
        else:
            for kinds, hint in _HINTS:
                if isinstance(tree, kinds):
                    raise self.error(hint, tree)
            raise self.error(f"{type(tree).__name__} is not supported", tree)
        return function, self.operands(tree) if function is not None else []

    def constant(self, tree: ast.Constant) -> int:
        x = tree.value
        if not isinstance(x, int | float | complex):
            raise self.error(f"{x!r:.40} is not a number", tree)
        try:
            return self.builder.number(x)
        except OverflowError as error:
            raise self.error(str(error), tree) from None

    def function(self, tree: ast.Call) -> str:
        if not isinstance(tree.func, ast.Name):
            raise self.error("only functions can be called, by their names", tree.func)
        name = tree.func.id
        if name in REDUCTIONS:
            raise self.error(f"{name}() can only be the outermost function of an expression", tree)
        if name not in FUNCTIONS:
            known = ", ".join((*FUNCTIONS, *REDUCTIONS))
            raise self.error(f"unknown function {name!r}; known are {known}", tree.func)
        function, count = FUNCTIONS[name]
        for odd in (*tree.keywords, *(x for x in tree.args if isinstance(x, ast.Starred))):
            raise self.error(f"{name}() takes its operands by position only", odd)
        if len(tree.args) != count:
            plural = "" if count == 1 else "s"
            raise self.error(f"{name}() takes {count} operand{plural}, not {len(tree.args)}", tree)
        return function


def parse(text: str) -> Graph:
    """Returns the graph of an expression; raises SyntaxError, with the place, for other texts."""
    if len(text) > MAX_TEXT:
        raise SyntaxError(
            f"the expression has {len(text)} characters; at most {MAX_TEXT} are allowed",
            (_FILENAME, 1, 1, text[:80]),
        )
    return _Parser(text.strip()).graph()
