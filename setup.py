"""Builds libmylib with CMake, then the extension pkg.core; the rest is in pyproject.toml.

Environment variables that are read here (CMake reads CC, CFLAGS, CUDACXX, CUDA_HOME and its own):

MYLIB_CUDA   AUTO (the default), ON or OFF: build for CUDA when a toolkit is found, always, never.
MYLIB_ROOT   Prefix of an installed libmylib of the same version, which is used instead of building.
CMAKE_ARGS   Further arguments for CMake.
"""

import ctypes
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from setuptools import Command, Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.errors import SetupError

HERE = Path(__file__).parent.resolve()
HEADER = Path("libcalc", "include", "mylib.h")
CMAKE_MINIMUM = (3, 24)
LIBRARY = "libmylib.dylib" if sys.platform == "darwin" else "libmylib.so"
ORIGIN = "@loader_path" if sys.platform == "darwin" else "$ORIGIN"

# Folders of the package.
CMAKE_DIR = "lib/cmake/mylib"
PKGCONFIG_DIR = "lib/pkgconfig"

# Used if the compiler has them, as in libcalc/CMakeLists.txt.  The compiler must not assume
# undeclared functions.
HARDENING = ["-fstack-protector-strong", "-Werror=implicit-function-declaration"]
FORTIFY = ["-U_FORTIFY_SOURCE", "-D_FORTIFY_SOURCE=2"]
HARDENED_LINK = ["-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]

# CMake remembers these from its first run: the build starts afresh if any of them changes.
REMEMBERED = """
    AR CC CFLAGS CPATH CPPFLAGS CUDAARCHS CUDACXX CUDAFLAGS CUDAHOSTCXX CUDA_HOME CUDA_PATH LDFLAGS
    MYLIB_CUDA NVCC_APPEND_FLAGS NVCC_CCBIN NVCC_PREPEND_FLAGS PATH
""".split()


def header_version(header: Path) -> str:
    """The version written in a mylib.h."""
    found = re.findall(
        r"^#define MYLIB_VERSION_(?:MAJOR|MINOR|PATCH) (\d+)$", header.read_text(), re.MULTILINE
    )
    return ".".join(found)


def cmake_version() -> tuple[int, int] | None:
    """The version of the cmake on the PATH; None without one that runs."""
    try:
        text = subprocess.run(["cmake", "--version"], capture_output=True, text=True).stdout
    except OSError:
        return None
    found = re.search(r"cmake version (\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else None


def cmake_arguments() -> list[str]:
    """The words of CMAKE_ARGS."""
    given = os.environ.get("CMAKE_ARGS", "")
    try:
        return shlex.split(given)
    except ValueError as error:  # an unpaired quote
        raise SetupError(
            f"CMAKE_ARGS is set to {given!r}, which is no command line: {error}"
        ) from None


def without_rpaths(command: list[str]) -> list[str]:
    """Returns a linker command without the folders that Python, or LDFLAGS, would search.

    The extension finds everything beside itself.  A folder of the build machine may hold another
    libmylib, or belong to someone else on another machine.
    """
    kept: list[str] = []
    for word in command:
        if kept and re.search(r"^-Wl,(.*,)?(--?rpath|-R)$", kept[-1]):
            kept[-1] += word.removeprefix("-Wl")  # the folder that belongs to it
        else:
            kept.append(word)
    rpath = r",(--?rpath[=,]|-R,?)[^,]*"
    kept = [re.sub(rpath, "", word) if word.startswith("-Wl,") else word for word in kept]
    return [word for word in kept if word != "-Wl"]


def missing_tools() -> dict[str, str]:
    """Finds the tools that the build needs and this machine lacks, and the error for each."""
    missing = {}
    found = cmake_version()
    wanted = ".".join(map(str, CMAKE_MINIMUM))
    if found is None or found < CMAKE_MINIMUM:
        state = "there is none on the PATH" if found is None else f"found {found[0]}.{found[1]}"
        missing[f"cmake>={wanted}"] = (
            f"CMake {wanted} or newer is needed to build libmylib; {state}.\n"
            "Install it (pip install cmake; Debian, Ubuntu: apt install cmake), or let pip do "
            "it: install without --no-build-isolation."
        )
    if not any(map(shutil.which, ("ninja", "make", "gmake"))):
        missing["ninja"] = (
            "Neither ninja nor make is on the PATH; one of them is needed to build libmylib.\n"
            "Install one (pip install ninja; Debian, Ubuntu: apt install make)."
        )
    return missing


def without_version(library: Path) -> None:
    """Shortens the name libmylib.so.N that a library contains, and its users note.

    In the package its file is LIBRARY, without a link of another name.
    """
    content = library.read_bytes()
    name = re.escape(f"\0{LIBRARY}".encode()) + rb"(\.\d+)\0"
    found = re.findall(name, content)
    if len(found) > 1:
        raise SetupError(f"MYLIB_ROOT: {library} holds its name {len(found)} times, expected once")
    shorter = re.sub(name, lambda m: m[0].replace(m[1], b"\0" * len(m[1])), content)
    library.write_bytes(shorter)


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
        package.mkdir(parents=True, exist_ok=True)
        root = os.environ.get("MYLIB_ROOT")
        if root:
            self.copy_library(Path(root).resolve(), package)
        else:
            self.build_library(package)
        for extension in self.extensions:
            extension.include_dirs += [str(package / "include"), numpy.get_include()]
            extension.library_dirs.append(str(package))
        super().run()

    def build_extensions(self) -> None:
        self.compiler.set_executable("linker_so", without_rpaths(self.compiler.linker_so))
        for extension in self.extensions:
            extension.extra_compile_args += self.known(
                HARDENING, [*self.compiler.compiler_so, "-c"]
            )
            # Fortified functions need an optimizer, and sanitizers do not see what they do.
            if not re.search(r"-O0|-fsanitize", " ".join(self.compiler.compiler_so)):
                extension.extra_compile_args += FORTIFY
            extension.extra_link_args += self.known(
                HARDENED_LINK, [*self.compiler.linker_so, "-fPIC"]
            )
        super().build_extensions()

    def known(self, flags: list[str], command: list[str]) -> list[str]:
        """The flags that the compiler or linker has."""
        with tempfile.TemporaryDirectory() as folder:
            source = Path(folder, "probe.c")
            source.write_text("int probe(void);\nint probe(void) { return 0; }\n")
            words = [*command, "-Werror", str(source), "-o", str(source.with_suffix(".out"))]
            probes = {f: subprocess.run([*words, f], capture_output=True) for f in flags}
        return [flag for flag, probe in probes.items() if probe.returncode == 0]

    def build_library(self, package: Path) -> None:
        for error in missing_tools().values():
            raise SetupError(error)

        # An editable install is repeated; its temporary folder would not last.
        editable = self.inplace or self.editable_mode
        build = HERE / "build" / "editable" if editable else Path(self.build_temp)
        build = build.resolve()
        configure = [
            "cmake",
            f"-S{HERE}",
            f"-B{build}",
            f"-DCMAKE_BUILD_TYPE={'Debug' if self.debug else 'Release'}",
            "-DMYLIB_BUILD_TESTS=OFF",
            f"-DMYLIB_CUDA={os.environ.get('MYLIB_CUDA') or 'AUTO'}",
            *cmake_arguments(),
            # The package folder is the prefix: the library lies in it, beside the extension.  These
            # come last: conda's CMAKE_ARGS, for example, name a whole system's folders.
            "-DCMAKE_INSTALL_INCLUDEDIR=include",
            "-DCMAKE_INSTALL_LIBDIR=.",
            f"-DMYLIB_INSTALL_CMAKEDIR={CMAKE_DIR}",
            f"-DMYLIB_INSTALL_PKGCONFIGDIR={PKGCONFIG_DIR}",
            "-DMYLIB_SOVERSION=OFF",  # a wheel holds no links
        ]
        if "CMAKE_GENERATOR" not in os.environ and shutil.which("ninja"):
            configure.append("-GNinja")

        stamp = build / "configured-by-setup.json"
        inputs = json.dumps([configure, {name: os.environ.get(name) for name in REMEMBERED}])
        if not stamp.exists() or stamp.read_text() != inputs:
            configure.append("--fresh")
        self.cmake("configuring", configure)
        stamp.write_text(inputs)

        compile_ = ["cmake", "--build", str(build), "--config", "Release"]
        if "CMAKE_BUILD_PARALLEL_LEVEL" not in os.environ:
            usable = getattr(os, "sched_getaffinity", lambda _: range(os.cpu_count() or 1))(0)
            compile_ += ["--parallel", str(len(usable))]
        self.cmake("compiling", compile_)
        self.cmake(
            "installing", ["cmake", "--install", str(build), "--prefix", str(package), "--strip"]
        )

    def cmake(self, doing: str, command: list[str]) -> None:
        print("$", shlex.join(command), flush=True)
        # DESTDIR, set by a make that builds a system package, would move our files.
        env = {name: value for name, value in os.environ.items() if name != "DESTDIR"}
        try:
            subprocess.run(command, check=True, env=env)
        except subprocess.CalledProcessError as error:
            raise SetupError(
                f"{doing} libmylib failed (CMake's exit status {error.returncode}): the first "
                "error above says why, and where it can what to do."
            ) from None

    def copy_library(self, root: Path, package: Path) -> None:
        """Takes the library and the header from MYLIB_ROOT."""
        header = root / "include" / "mylib.h"
        libraries = [
            path
            for pattern in ("lib", "lib64", "lib/*-linux-gnu*", ".")
            for path in sorted(root.glob(f"{pattern}/{LIBRARY}"))
        ]
        missing = [str(header)] if not header.exists() else []
        if not libraries:
            missing.append(f"{LIBRARY} in {root / 'lib'} or {root / 'lib64'}")
        if missing:
            raise SetupError(
                f"MYLIB_ROOT is set to '{root}', which has no {' and no '.join(missing)}.\n"
                "Set it to the prefix that libmylib was installed to (cmake --install build "
                "--prefix PREFIX), or unset it to build the library here."
            )
        library = libraries[0]
        try:
            loaded = ctypes.CDLL(str(library))
            loaded.mylib_version.restype = ctypes.c_char_p
            library_version = loaded.mylib_version().decode()
        except (OSError, AttributeError) as error:
            raise SetupError(f"MYLIB_ROOT: {library} cannot be used: {error}") from None
        wanted = header_version(HERE / HEADER)
        for what, version in ((header, header_version(header)), (library, library_version)):
            if version != wanted:
                raise SetupError(
                    f"MYLIB_ROOT: {what} is of version {version}, but this package needs "
                    f"{wanted}.\nInstall libmylib {wanted} there, or unset MYLIB_ROOT to build "
                    "the library here."
                )

        print(
            f"using {library} (version {library_version}) instead of building libmylib", flush=True
        )
        (package / "include").mkdir(exist_ok=True)
        shutil.copy2(header, package / "include")
        shutil.copy2(library, package / LIBRARY)
        without_version(package / LIBRARY)
        self.write_metadata(package, wanted)

    def write_metadata(self, package: Path, version: str) -> None:
        """Writes the CMake package and mylib.pc for the layout of the wheel, as CMake would."""
        values = {
            "CMAKE_INSTALL_INCLUDEDIR": "include",
            "CMAKE_INSTALL_LIBDIR": ".",
            "MYLIB_CMAKEDIR_TO_PREFIX": "../../..",
            "MYLIB_LIBRARY": LIBRARY,
            "MYLIB_NAME": "mylib",
            "MYLIB_NEEDS": "",
            "MYLIB_NEEDS_FLAGS": "",
            "MYLIB_PC_INCLUDEDIR": "${prefix}/include",
            "MYLIB_PC_LIBDIR": "${prefix}",
            "MYLIB_PKGCONFIGDIR_TO_PREFIX": "../..",
            "MYLIB_TYPE": "SHARED",
            "PROJECT_VERSION": version,
            "PROJECT_VERSION_MAJOR": version.split(".")[0],
        }
        for folder, name in (
            (CMAKE_DIR, "mylibConfig.cmake"),
            (CMAKE_DIR, "mylibConfigVersion.cmake"),
            (PKGCONFIG_DIR, "mylib.pc"),
        ):
            template = (HERE / "libcalc" / "cmake" / f"{name}.in").read_text()
            (package / folder).mkdir(parents=True, exist_ok=True)
            text = re.sub(r"@(\w+)@", lambda found: values[found[1]], template)
            (package / folder / name).write_text(text)

    def installed(self, package: Path) -> list[Path]:
        """The files put into the package beside the extension, relative to the package."""
        found = [
            package / LIBRARY,
            *(package / "include").rglob("*"),
            *(package / "lib").rglob("*"),
        ]
        return [path.relative_to(package) for path in found if path.is_file()]

    def get_outputs(self) -> list[str]:
        outputs = super().get_outputs()
        if not self.inplace:
            package = Path(self.get_ext_fullpath("pkg.core")).parent
            outputs += [str(package / path) for path in self.installed(package)]
        return outputs

    def get_output_mapping(self) -> dict[str, str]:
        # For editable installs in strict mode: each file of the wheel is a link to one in the tree.
        mapping = super().get_output_mapping()
        for target, source in list(mapping.items()):
            for path in self.installed(Path(source).parent):
                mapping[str(Path(target).parent / path)] = str(Path(source).parent / path)
        return mapping


def repository_commands() -> dict[str, type[Command]]:
    """The commands that only the repository has."""
    if not (HERE / "scripts").is_dir():
        return {}
    sys.path.insert(0, str(HERE / "scripts"))
    from small_sdist import SDist

    return {"sdist": SDist}


setup(
    version=header_version(HERE / HEADER),
    setup_requires=[] if os.environ.get("MYLIB_ROOT") else list(missing_tools()),
    cmdclass={"build_ext": BuildExt, **repository_commands()},
    ext_modules=[
        Extension(
            "pkg.core",
            sources=sorted(map(str, Path("pkg").glob("*.c"))),
            depends=["setup.py", *map(str, Path("pkg").glob("*.h")), str(HEADER)],
            libraries=["mylib"],
            extra_compile_args=["-std=c11", "-fvisibility=hidden"],
            extra_link_args=[f"-Wl,-rpath,{ORIGIN}", "-Wl,-s"],
        )
    ],
)
