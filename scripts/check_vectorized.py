"""Fails when a CPU kernel that should be vector code is not, or has fused multiply-adds.

A compiler that gives up on vectorizing a loop says nothing, and the result is right but several
times slower.  So this reads the machine code of every kernel, at every level, and looks for its
loops over contiguous operands: two arrays, and an array and a scalar either way.  A function of
ops.h has one loop, over whole groups of elements.

Usage: check_vectorized.py BUILD_FOLDER     a CMake build, not a sanitized or debug one; x86-64 only
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

# The vector registers that a level has, and that its loops should fill.  Level generic is compiled
# for size: it is for processors without SSE 4.2.
REGISTERS = {"v2": "xmm", "v3": "ymm", "v4": "zmm"}

INTEGERS = "i8 i16 i32 i64 u8 u16 u32 u64".split()

COMPLEX = "c64 c128".split()
UNARY = "negative absolute square sqrt invert logical_not_first".split()
COMPARISONS = "equal not_equal less less_equal logical_and logical_or logical_xor".split()
SHIFTS = "left_shift right_shift".split()

# Scalar code is expected of these OPERATION_kernel_TYPE: (operations, types, levels), and why.
ALL_LEVELS = list(REGISTERS)
BEFORE_V3 = ["v2"]
EXPECTED_SCALAR = [
    # x86 divides vectors of floats only: OPERATION_by_array_TYPE does that where it can, and
    # OPERATION_by_number_TYPE multiplies.
    ("divide floor_divide remainder", INTEGERS, ALL_LEVELS),
    # Case distinctions, and the fmod() of the C library.
    ("floor_divide remainder", ["f32", "f64"], ALL_LEVELS),
    # Pairs of real and imaginary parts: one element at a time, in half a register or a whole one;
    # OPERATION_pairs_TYPE is there for the operations that do not mix the parts, and
    # OPERATION_product_TYPE for products at level v4.
    (
        "add subtract multiply divide minimum maximum negative square sqrt"
        " equal not_equal less less_equal logical_and logical_or logical_xor logical_not_first",
        COMPLEX,
        ALL_LEVELS,
    ),
    # Between two conversions, which are looked at below; OPERATION_sign_f16 needs none.
    (
        "add subtract multiply divide floor_divide remainder minimum maximum negative absolute "
        "square sqrt equal not_equal less less_equal logical_and logical_or logical_xor",
        ["f16"],
        ALL_LEVELS,
    ),
    # The absolute value of an unsigned integer is a copy.
    ("absolute", "u8 u16 u32 u64".split(), ALL_LEVELS),
    # 64-bit elements: multiplication and shifts came with v3.
    ("multiply square", ["i64", "u64"], BEFORE_V3),
    ("by_number", ["i64", "u64"], BEFORE_V3),
    # A vector that is computed in f32 fills half a register when it is stored.
    ("lines", ["f16"], ALL_LEVELS),
]
# As above, for OPERATION_loop_TYPE of cpu/elementary.c, from v3 on: before, fused multiply-adds are
# emulated, with a branch.
EXPECTED_SCALAR_FUNCTIONS = [
    # A loop over the bits of the quotient; case distinctions; moves without arithmetic.
    ("fmod", ["f32", "f64"], ALL_LEVELS),
    ("sign reciprocal real imag", COMPLEX, ALL_LEVELS),
    # One element at a time, by a call: they choose between formulas.
    (
        "exp expm1 log log2 log10 log1p sin cos tan sinh cosh tanh"
        " arcsin arccos arctan arcsinh arccosh arctanh power",
        COMPLEX,
        ALL_LEVELS,
    ),
    # For chunks with rare arguments; power_first_loop_f32 and power_second_loop_f32 do the rest.
    ("power_rare", ["f32"], ALL_LEVELS),
]

EXACTLY_FUSED = ["remainder_vectors_f32", "remainder_vectors_f64"]

NAME = re.compile(
    r"(?P<operation>\w+)_(?P<form>kernel|groups|pairs|by_array|by_number|product|sign|loop|lines)"
    r"_(?P<kind>i8|i16|i32|i64|u8|u16|u32|u64|f16|f32|f64|c64|c128)"
)
STORE = re.compile(r"\bv?mov(?:u|a|nt)?(?:ps|pd|dq[au]?\d*)\s+%([xyz]mm)\d+(?:\{%k\d\})?,.*\(")
ARITHMETIC = re.compile(
    r"\bv?(?:(?:add|sub|mul|div|min|max|sqrt|xor|and|andn|or|cmp\w*|addsub|range|round|rndscale)p[sd]"
    r"|p(?:add|sub|mull|mulu|min|max|abs|xor|and|andn|or|cmp|sll|sra|srl|unpck|tern)\w*)\b"
)
FUSED = re.compile(r"\bvfn?m(?:add|sub)")
PACKED_DIVISION = re.compile(r"\bv?divp[sd]\b")


@dataclass
class Function:
    """The machine code of one function: addresses and instructions, in one part or more."""

    parts: list[list[tuple[int, str]]] = field(default_factory=list)

    def same_as(self) -> str | None:
        """The function that this one only jumps to."""
        jump = re.match(r"jmp +[0-9a-f]+ <(\w+)>", self.parts[0][0][1])
        return jump[1] if jump else None

    def loops(self) -> Iterator[list[str]]:
        """The instructions of each innermost loop."""
        for part in self.parts:
            ranges = []
            for address, text in part:
                jump = re.match(r"j\w+ +([0-9a-f]+)", text)
                if jump and part[0][0] <= int(jump[1], 16) <= address:
                    ranges.append((int(jump[1], 16), address))
            for first, last in ranges:
                if not any(first <= f and t <= last for f, t in ranges if (f, t) != (first, last)):
                    yield [text for address, text in part if first <= address <= last]

    def vector_loops(self, register: str) -> int:
        """Counts the loops that compute with whole vectors of that kind and store them."""
        return sum(
            any(ARITHMETIC.search(text) for text in loop)
            and any(found[1] == register for text in loop if (found := STORE.search(text)))
            for loop in self.loops()
        )

    def has(self, instruction: re.Pattern[str]) -> bool:
        return any(instruction.search(text) for part in self.parts for _, text in part)


def functions(object_file: Path) -> dict[str, Function]:
    command = ["objdump", "-d", "--no-show-raw-insn", "-w", str(object_file)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, Function] = {}
    for block in text.split("\n\n"):
        # gcc splits functions: NAME and NAME.part.0 are one.
        title = re.match(r"\s*[0-9a-f]+ <(\w+)[^>]*>:\n", block)
        lines = re.findall(r"^ +([0-9a-f]+):\t(.*)$", block, re.M)
        if title and lines:
            part = [(int(address, 16), text.strip()) for address, text in lines]
            found.setdefault(title[1], Function()).parts.append(part)
    return found


def expected_scalar(name: re.Match[str], level: str) -> bool:
    is_function = name["form"] == "loop"
    what = name["operation"] if name["form"] in ("kernel", "groups", "loop") else name["form"]
    return any(
        what in operations.split() and name["kind"] in kinds and level in levels
        for operations, kinds, levels in (
            EXPECTED_SCALAR_FUNCTIONS if is_function else EXPECTED_SCALAR
        )
    )


def problem(code: dict[str, Function], name: re.Match[str], level: str) -> str | None:
    """Tells what is wrong with one function; None if it is vector code as it should be."""
    # gcc makes one of two functions with the same code, and lets the other jump to it.
    function = code[name[0]]
    while (same := function.same_as()) in code:
        function = code[same]
    if name["form"] == "by_array":
        return None if function.has(PACKED_DIVISION) else "has no division of vectors"
    # Vectors of f64 are narrowed to halves of one.
    register = "ymm" if name["operation"].endswith("_lanes") else REGISTERS[level]
    loops = function.vector_loops(register)
    wanted = 1
    if name["form"] in ("kernel", "groups") and name["operation"] not in UNARY:
        wanted = 3
    if name["operation"] in SHIFTS and level in BEFORE_V3:
        wanted = 1  # Elements with counts of their own are shifted from v3 on.
    elif (name["operation"], name["kind"], level) == ("left_shift", "u8", "v3"):
        wanted = 2  # gcc widens bytes, which x86 cannot shift, but for one count for all.
    if loops < wanted:
        return f"has {loops} loops in {register}, not {wanted}"
    return None


def check(build: Path, levels: Iterable[str]) -> tuple[list[str], int]:
    """Returns a line for each function that is wrong, and the number of those in vector code."""
    wrong = []
    vectorized = 0
    for level in levels:
        folder = build / "libcalc" / "CMakeFiles" / f"mylib_kernels_{level}.dir"
        code = functions(folder / "src" / "cpu" / "kernels.c.o")
        # Results must not depend on the level, so none may fuse multiply-adds, unless exactly.
        fused = [name for name in code if code[name].has(FUSED) and name not in EXACTLY_FUSED]
        wrong += [f"{level}: {name} has a fused multiply-add" for name in fused]
        if level not in BEFORE_V3:
            folder = build / "libcalc" / "CMakeFiles" / f"mylib_functions_{level}.dir"
            loops = functions(folder / "src" / "cpu" / "elementary.c.o")
            code.update({name: loops[name] for name in loops if "_loop_" in name})
        for name in filter(None, map(NAME.fullmatch, code)):
            if name["form"] == "kernel" and name["operation"] in (*COMPARISONS, "logical_not"):
                continue  # OPERATION_groups_TYPE has the loops
            if name["form"] == "loop" and name["operation"].endswith("_hard"):
                continue  # Hard elements one by one: OPERATION_easy_loop_TYPE does the others.
            if expected_scalar(name, level):
                continue
            trouble = problem(code, name, level)
            if trouble:
                wrong.append(f"{level}: {name[0]} {trouble}")
            else:
                vectorized += 1
        # f16 is converted in blocks; from v3 on by instructions made for it.
        if level in BEFORE_V3:
            for conversion in ("widen", "narrow"):
                if not code[conversion].vector_loops(REGISTERS[level]):
                    wrong.append(f"{level}: {conversion} is not vector code")
    return wrong, vectorized


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=Path, help="a CMake build of libmylib for x86-64")
    parser.add_argument("--level", choices=REGISTERS, help="check this level alone")
    options = parser.parse_args()
    wrong, vectorized = check(options.build, [options.level] if options.level else REGISTERS)
    for line in wrong:
        print(line)
    print(f"{vectorized} functions are vector code, {len(wrong)} are not and should be")
    return 1 if wrong or not vectorized else 0


if __name__ == "__main__":
    sys.exit(main())
