"""The package imported again, as tests that isolate `sys.modules` do, and the copies dropped."""

from __future__ import annotations

from collections.abc import Callable

import pytest

_BEGIN = """
import faulthandler, gc, sys, weakref
import numpy as np
faulthandler.enable()

def imported():
    "A package of its own, and its modules, which sys.modules forgets."
    import pkg
    names = [name for name in sys.modules if name.split(".")[0] == "pkg"]
    modules = {name: sys.modules.pop(name) for name in names}
    return pkg, modules

x = np.arange(5.0)
small = np.arange(5, dtype="i1")

def use(pcd, e):
    assert (e(x, x) == x * x + 1).all()
    assert (e(x, 2.0) == x * 2 + 1).all()
    assert (pcd.add(x, small) == x + small).all() and pcd.add(1, 2) == 3
    assert (pcd.add(x[::-1], x.astype(">f8")) == x[::-1] + x).all()
    assert pcd.less(small, 300).all()
    assert pcd.add.reduce(x) == 10 and pcd.sum(x) == 10 and pcd.dot(x, x) == 30
    assert (pcd.evaluate("y * 2", {"y": x}) == x * 2).all()
    with np.errstate(all="raise"):
        for call in (lambda: pcd.divide(x, 0.0), lambda: pcd.Expression("1 / y")(x)):
            try:
                call()
            except FloatingPointError:
                pass
            else:
                raise AssertionError
    for call, error in (
        (lambda: pcd.divide(1, 0), ZeroDivisionError), (lambda: e(x), TypeError),
        (lambda: pcd.add(x, "a"), TypeError), (lambda: pcd.add(x, x, device="cuda:99"), Exception),
        (lambda: pcd.Expression("a +"), SyntaxError),
    ):
        try:
            call()
        except error:
            pass
        else:
            raise AssertionError

def new(pcd):
    return pcd.Expression("a * b + 1")

"""

_SCRIPTS = {
    "a second import that is dropped": """
# The first goes on, and so does what is kept of the second, which is freed in the end.
first, _modules = imported()
e = new(first)
use(first, e)
for _ in range(3):
    second, modules = imported()
    assert second.core is not first.core and second.Array is not first.Array
    f = new(second)
    use(second, f)
    use(first, e)
    core, kept = weakref.ref(second.core), second.add
    del second, modules
    gc.collect()
    use(first, e)
    assert (f(x, x) == x * x + 1).all() and (kept(x, x) == 2 * x).all()
    del f
    gc.collect()
    assert (kept(x, x) == 2 * x).all() and kept(2, 3) == 5
    ufunc = kept.ufunc
    del kept
    gc.collect()
    assert (ufunc(x, x) == 2 * x).all()
    del ufunc
    gc.collect()
    assert core() is None, gc.get_referrers(core())
    use(first, e)
""",
    "the first of two imports dropped": """
first, modules = imported()
e = new(first)
use(first, e)
second, _modules = imported()
f = new(second)
use(second, f)
del first, modules
gc.collect()
assert (e(x, x) == x * x + 1).all()
use(second, f)
assert f(x, x).sum() == e(x, x).sum()
del e
gc.collect()
use(second, f)
""",
    "arrays of two imports": """
first, modules = imported()
a = first.asarray(x, device="cuda")
second, others = imported()
b = second.asarray(x, device="cuda")

def host(pcd, y):
    return pcd.asnumpy(y)

assert (first.asnumpy(2 * a + a) == 3 * x).all() and (second.asnumpy(2 * b - b) == x).all()
# Arrays of two imports: computed, or refused with an error.
outcomes = []
for call in (
    lambda: a + b, lambda: b + a, lambda: first.add(a, b), lambda: second.add(a, b),
    lambda: first.add(b, b), lambda: a == b, lambda: first.sum(b), lambda: first.where(b, a, b),
    lambda: first.Expression("p + q")(a, b), lambda: first.asarray(b), lambda: a.copy().__iadd__(b),
    lambda: second.concatenate([a, b]), lambda: np.add(a, b),
):
    try:
        outcomes.append(type(call()).__name__)
    except (TypeError, ValueError) as error:
        assert str(error)
del second, others, call
gc.collect()
assert (first.asnumpy(2 * a + a) == 3 * x).all()
c = b + 1
c += b
assert (abs(-c) == c)[0].shape == ()
assert [float(value) for value in c] == (2 * x + 1).tolist()
del b, c
gc.collect()
assert (first.asnumpy(2 * a) == 2 * x).all()
""",
    "the end of the interpreter": """
first, modules = imported()
second, others = imported()

class Late:
    "Computes when the interpreter goes down."
    def __init__(self, pcd):
        self.pcd, self.e, self.add, self.me = pcd, new(pcd), pcd.add, self
    def __del__(self):
        self.e(x, x)
        self.add(x, x)
        self.add(1, 2)

x = np.arange(5.0)
late = [Late(first), Late(second)]
first.late, second.late = late
if first.cuda_is_available():
    first.array = first.asarray(x, device="cuda")
    late[0].array = second.asarray(x, device="cuda") + 1
    late[1].stream = second.Stream()
""",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.gpu] * name.startswith("arrays")) for name in _SCRIPTS],
)
def test_two_imports(name: str, python: Callable[..., str]) -> None:
    """Each process runs to its end without a crash."""
    assert python(f"{_BEGIN}{_SCRIPTS[name]}\nprint('good')").strip() == "good"
