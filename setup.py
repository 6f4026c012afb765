"""Builds libmylib with CMake, then the extension pkg.core; the rest is in pyproject.toml.

Environment variables that are read here (CMake reads CC, CFLAGS, CUDACXX, CUDA_HOME and its own):

MYLIB_CUDA   AUTO (the default), ON or OFF: build for CUDA when a toolkit is found, always, never.
MYLIB_ROOT   Prefix of an installed libmylib of the same version, which is used instead of building.
CMAKE_ARGS   Further arguments for CMake.
"""

import ctypes
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import SetupError

HEADER = Path("libcalc/include/mylib.h")
C_FLAGS = ["-std=c11", "-fvisibility=hidden", "-fstack-protector-strong", "-Werror=implicit"]

# For users of the library: what CMake or write_metadata() puts into the package.
METADATA = (
    "lib/cmake/mylib/mylibConfig.cmake",
    "lib/cmake/mylib/mylibConfigVersion.cmake",
    "lib/pkgconfig/mylib.pc",
)


def header_version(header: Path) -> str:
    """Returns the version written in a mylib.h."""
    return ".".join(re.findall(r"#define MYLIB_VERSION_\w+ (\d+)\n", header.read_text()))


def missing_tools() -> dict[str, str]:
    """Finds the tools that the PATH lacks, and the error for each."""
    missing = {}
    version = re.search(r"cmake version (\d+)\.(\d+)", subprocess.getoutput("cmake --version"))
    if not version or (int(version[1]), int(version[2])) < (3, 24):
        found = f"found {version[1]}.{version[2]}" if version else "there is none on the PATH"
        missing["cmake>=3.24"] = (
            f"CMake 3.24 or newer is needed to build libmylib; {found}.\n"
            "Install it (pip install cmake; Debian, Ubuntu: apt install cmake), or let pip do "
            "it: install without --no-build-isolation."
        )
    if not any(map(shutil.which, ("ninja", "make", "gmake"))):
        missing["ninja"] = (
            "Neither ninja nor make is on the PATH; one of them is needed to build libmylib.\n"
            "Install one (pip install ninja; Debian, Ubuntu: apt install make)."
        )
    return missing


def without_rpaths(command: list[str]) -> list[str]:
    """Returns a linker command without rpaths, which may lead to another libmylib."""
    text = "\0".join(command)
    text = re.sub(r"(,--?rpath|,-R)\0-Wl,", r"\1,", text)  # the folder is in the next word
    text = re.sub(r",(--?rpath[=,]|-R,?)[^,\0]*", "", text)
    return [word for word in text.split("\0") if word != "-Wl"]


def write_metadata(package: Path, version: str) -> None:
    """Writes the CMake package and mylib.pc for the layout of the wheel, as CMake would."""
    values = {  # others are empty: only a static library has them
        "CMAKE_INSTALL_INCLUDEDIR": "include",
        "CMAKE_INSTALL_LIBDIR": ".",
        "MYLIB_CMAKEDIR_TO_PREFIX": "../../..",
        "MYLIB_LIBRARY": "libmylib.so",
        "MYLIB_NAME": "mylib",
        "MYLIB_PC_INCLUDEDIR": "${prefix}/include",
        "MYLIB_PC_LIBDIR": "${prefix}",
        "MYLIB_PKGCONFIGDIR_TO_PREFIX": "../..",
        "MYLIB_TYPE": "SHARED",
        "PROJECT_VERSION": version,
    }
    for path in (package / name for name in METADATA):
        template = Path("libcalc/cmake", f"{path.name}.in").read_text()
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(re.sub(r"@(\w+)@", lambda found: values.get(found[1], ""), template))


class BuildExt(build_ext):
    """Puts libmylib and its files for C users into the package, then builds the extension."""

    def run(self) -> None:
        import numpy

        include = Path(sysconfig.get_path("include"))
        if not (include / "Python.h").exists():
            raise SetupError(
                f"The headers of this Python are missing: there is no Python.h in {include}.\n"
                "Install them (Debian, Ubuntu: apt install python3-dev; Fedora: python3-devel)."
            )
        # The source folder in an editable install, else the folder that becomes the wheel.
        package = Path(self.get_ext_fullpath("pkg.core")).parent.resolve()
        if root := os.environ.get("MYLIB_ROOT"):
            self.copy_library(Path(root).resolve(), package)
        else:
            self.build_library(package)
        for extension in self.extensions:
            extension.include_dirs += [str(package / "include"), numpy.get_include()]
            extension.library_dirs.append(str(package))
        super().run()

    def build_extensions(self) -> None:
        self.compiler.linker_so = without_rpaths(self.compiler.linker_so)
        # Fortified functions need an optimizer, and sanitizers do not see what they do.  -O3 would
        # make the extension a tenth larger, and no faster.
        if not re.search(r"-O0|-fsanitize", " ".join(self.compiler.compiler_so)):
            self.compiler.compiler_so += ["-O2", "-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
        super().build_extensions()

    def build_library(self, package: Path) -> None:
        if missing := missing_tools():
            raise SetupError("\n".join(missing.values()))
        args = os.environ.get("CMAKE_ARGS", "")
        try:
            further = shlex.split(args)
        except ValueError as e:  # an unpaired quote
            raise SetupError(f"CMAKE_ARGS is set to {args!r}, which is no command line: {e}") from e

        # An editable install is repeated; its temporary folder would not last.
        build = Path("build/editable" if self.inplace else self.build_temp).resolve()
        configure = [
            "cmake",
            "--fresh",  # CC, CFLAGS and the like may have changed, which CMake would not notice
            "-S.",
            f"-B{build}",
            f"-DCMAKE_BUILD_TYPE={'Debug' if self.debug else 'Release'}",
            "-DMYLIB_BUILD_TESTS=OFF",
            f"-DMYLIB_CUDA={os.environ.get('MYLIB_CUDA') or 'AUTO'}",
            *further,
            # The package folder is the prefix: the library lies in it, beside the extension.  These
            # come last: conda's CMAKE_ARGS, for example, name a whole system's folders.
            "-DCMAKE_INSTALL_INCLUDEDIR=include",
            "-DCMAKE_INSTALL_LIBDIR=.",
            "-DMYLIB_INSTALL_CMAKEDIR=lib/cmake/mylib",
            "-DMYLIB_INSTALL_PKGCONFIGDIR=lib/pkgconfig",
            "-DMYLIB_SOVERSION=OFF",  # a wheel holds no links
        ]
        if "CMAKE_GENERATOR" not in os.environ and shutil.which("ninja"):
            configure.append("-GNinja")
        compile_ = ["cmake", "--build", str(build), "--config", "Release"]
        if "CMAKE_BUILD_PARALLEL_LEVEL" not in os.environ:
            compile_ += ["--parallel", str(len(os.sched_getaffinity(0)))]
        install = ["cmake", "--install", str(build), "--prefix", str(package), "--strip"]
        steps = {"configuring": configure, "compiling": compile_, "installing": install}
        for doing, command in steps.items():
            print("$", shlex.join(command), flush=True)
            # DESTDIR, set by a make that builds a system package, would move our files.
            status = subprocess.run(command, env={**os.environ, "DESTDIR": ""}).returncode
            if status != 0:
                raise SetupError(
                    f"{doing} libmylib failed (CMake's exit status {status}): the first error "
                    "above says why, and where it can what to do."
                )

    def copy_library(self, root: Path, package: Path) -> None:
        """Takes the library and the header from MYLIB_ROOT."""
        header = root / "include/mylib.h"
        places = ("lib", "lib64", "lib/*-linux-gnu*", ".")
        libraries = [path for place in places for path in root.glob(f"{place}/libmylib.so")]
        if not header.exists() or not libraries:
            raise SetupError(
                f"MYLIB_ROOT is set to '{root}', which has no include/mylib.h or no libmylib.so "
                "in lib or lib64.\n"
                "Set it to the prefix that libmylib was installed to (cmake --install build "
                "--prefix PREFIX), or unset it to build the library here."
            )
        library = libraries[0]
        try:
            mylib_version = ctypes.CDLL(str(library)).mylib_version
        except (OSError, AttributeError) as error:
            raise SetupError(f"MYLIB_ROOT: {library} cannot be used: {error}") from None
        mylib_version.restype = ctypes.c_char_p
        wanted = header_version(HEADER)
        found = ((header, header_version(header)), (library, mylib_version().decode()))
        for file, version in found:
            if version != wanted:
                raise SetupError(
                    f"MYLIB_ROOT: {file} is of version {version}, but this package needs "
                    f"{wanted}.\nInstall libmylib {wanted} there, or unset MYLIB_ROOT to build "
                    "the library here."
                )

        print(f"using {library} (version {wanted}) instead of building libmylib", flush=True)
        (package / "include").mkdir(parents=True, exist_ok=True)
        shutil.copy2(header, package / "include")
        # The library holds its name, libmylib.so.N; in a wheel, without links, it is the file's.
        name = re.compile(rb"(?<=\0libmylib\.so)\.\d+(?=\0)")
        content = name.sub(lambda number: bytes(len(number[0])), library.read_bytes())
        (package / "libmylib.so").write_bytes(content)
        write_metadata(package, wanted)

    def get_output_mapping(self) -> dict[str, str]:
        # For editable installs in strict mode: each file of the wheel is a link to one in the tree.
        mapping = super().get_output_mapping()
        for target, source in list(mapping.items()):
            for name in ("libmylib.so", "include/mylib.h", *METADATA):
                mapping[str(Path(target).parent / name)] = str(Path(source).parent / name)
        return mapping


cmdclass: dict[str, type[Command]] = {"build_ext": BuildExt}
if Path("scripts").is_dir():  # which only the repository has
    sys.path.insert(0, "scripts")
    from small_sdist import SDist

    cmdclass["sdist"] = SDist

setup(
    version=header_version(HEADER),
    setup_requires=[] if os.environ.get("MYLIB_ROOT") else list(missing_tools()),
    cmdclass=cmdclass,
    ext_modules=[
        Extension(
            "pkg.core",
            sources=sorted(map(str, Path("pkg").glob("*.c"))),
            depends=["setup.py", *map(str, Path("pkg").glob("*.h")), str(HEADER)],
            libraries=["mylib"],
            extra_compile_args=C_FLAGS,
            extra_link_args=["-Wl,-rpath,$ORIGIN", "-Wl,-s", "-Wl,-z,relro,-z,now,-z,noexecstack"],
        )
    ],
)
