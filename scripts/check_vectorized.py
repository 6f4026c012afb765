"""Fails when a CPU kernel that should be vector code is not.

A compiler that gives up on vectorizing a loop says nothing, and the result is right but several
times slower.  So this reads the machine code of every kernel, at every level, and looks for its
loops over contiguous operands: two arrays, and an array and a scalar either way.

Usage: check_vectorized.py BUILD_FOLDER     a CMake build, not a sanitized or debug one; x86-64 only
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The vector registers that a level has, and that its loops should fill.
REGISTERS = {"generic": "xmm", "v2": "xmm", "v3": "ymm", "v4": "zmm"}

INTEGERS = "i8 i16 i32 i64 u8 u16 u32 u64".split()

COMPLEX = "c64 c128".split()
UNARY = "negative absolute square sqrt".split()

# Where scalar code is expected: (operations, types, levels), and why.
ALL_LEVELS = list(REGISTERS)
BEFORE_V2 = ["generic"]
BEFORE_V3 = ["generic", "v2"]
EXPECTED_SCALAR = [
    # x86 divides vectors of floats only.
    ("divide floor_divide remainder", INTEGERS, ALL_LEVELS),
    # Case distinctions, and the fmod() of the C library.
    ("floor_divide remainder", ["f32", "f64"], ALL_LEVELS),
    # Pairs of real and imaginary parts: one element at a time, in half a register or a whole one.
    (
        "add subtract multiply divide minimum maximum negative absolute square sqrt",
        COMPLEX,
        ALL_LEVELS,
    ),
    # The absolute value of an unsigned integer is a copy.
    ("absolute", "u8 u16 u32 u64".split(), ALL_LEVELS),
    # 64-bit elements: comparisons came with v2, multiplication and shifts with v3.
    ("minimum maximum", ["i64", "u64", "f64"], BEFORE_V2),
    ("absolute", ["i64"], BEFORE_V2),
    ("multiply square", ["i64", "u64"], BEFORE_V3),
]

KERNEL = re.compile(r"(\w+)_kernel_(i8|i16|i32|i64|u8|u16|u32|u64|f32|f64|c64|c128)")
STORE = re.compile(r"\bv?mov(?:u|a|nt)?(?:ps|pd|dq[au]?\d*)\s+%([xyz]mm)\d+(?:\{%k\d\})?,.*\(")
ARITHMETIC = re.compile(
    r"\bv?(?:(?:add|sub|mul|div|min|max|sqrt|xor|and|andn|or|cmp\w*|addsub|range)p[sd]"
    r"|p(?:add|sub|mull|mulu|min|max|abs|xor|and|andn|or|cmp|sra|srl|unpck|tern)\w*)\b"
)


@dataclass
class Function:
    """The machine code of one function: addresses and instructions, in order."""

    name: str
    code: list[tuple[int, str]]

    def same_as(self) -> str | None:
        """The function that this one only jumps to."""
        jump = re.match(r"jmp +[0-9a-f]+ <(\w+)>", self.code[0][1])
        return jump[1] if jump else None

    def loops(self) -> Iterator[list[str]]:
        """The instructions of each innermost loop."""
        ranges = []
        for address, text in self.code:
            jump = re.match(r"j\w+ +([0-9a-f]+)", text)
            if jump and self.code[0][0] <= int(jump[1], 16) <= address:
                ranges.append((int(jump[1], 16), address))
        for first, last in ranges:
            if not any(first <= f and t <= last for f, t in ranges if (f, t) != (first, last)):
                yield [text for address, text in self.code if first <= address <= last]

    def vector_loops(self, register: str) -> int:
        """How many loops compute with and store whole vectors of that kind."""
        return sum(
            any(ARITHMETIC.search(text) for text in loop)
            and any(found[1] == register for text in loop if (found := STORE.search(text)))
            for loop in self.loops()
        )


def functions(object_file: Path) -> dict[str, Function]:
    command = ["objdump", "-d", "--no-show-raw-insn", "-w", str(object_file)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found = {}
    for block in text.split("\n\n"):
        title = re.match(r"\s*[0-9a-f]+ <(\w+)>:\n", block)
        if title:
            lines = re.findall(r"^ +([0-9a-f]+):\t(.*)$", block, re.M)
            code = [(int(address, 16), text.strip()) for address, text in lines]
            found[title[1]] = Function(title[1], code)
    return found


def expected_scalar(operation: str, kind: str, level: str) -> bool:
    return any(
        operation in operations.split() and kind in kinds and level in levels
        for operations, kinds, levels in EXPECTED_SCALAR
    )


def check(build: Path) -> tuple[list[str], int]:
    """What is wrong, one line for each kernel, and how many kernels are vector code."""
    wrong = []
    vectorized = 0
    for level, register in REGISTERS.items():
        folder = build / "libcalc" / "CMakeFiles" / f"mylib_kernels_{level}.dir"
        code = functions(folder / "src" / "cpu" / "kernels.c.o")
        kernels = {name: found for name in code if (found := KERNEL.fullmatch(name))}
        for name, found in kernels.items():
            operation, kind = found.groups()
            if expected_scalar(operation, kind, level):
                continue
            # gcc makes one of two functions with the same code, and lets the other jump to it.
            function = code[name]
            while (same := function.same_as()) in code:
                function = code[same]
            loops = function.vector_loops(register)
            wanted = 1 if operation in UNARY else 3
            if loops < wanted:
                wrong.append(f"{level}: {name} has {loops} loops in {register}, not {wanted}")
            vectorized += loops >= wanted
        # f16 is converted in blocks; from v3 on by instructions made for it.
        conversions = "half_kernel", "narrow"
        if level in BEFORE_V3 and not all(
            code[name].vector_loops(register) for name in conversions
        ):
            wrong.append(f"{level}: the conversions of f16 are not vector code")
    return wrong, vectorized


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("build", type=Path, help="a CMake build of libmylib for x86-64")
    wrong, vectorized = check(parser.parse_args().build)
    for line in wrong:
        print(line)
    print(f"{vectorized} kernels are vector code, {len(wrong)} are not and should be")
    return 1 if wrong or not vectorized else 0


if __name__ == "__main__":
    sys.exit(main())
