"""Makes a small source distribution; setup.py takes this command where the repository is."""

import gzip
import io
import re
import tarfile
from pathlib import Path
from typing import Any

from setuptools.command.sdist import sdist


def without_owner_and_time(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mtime = 315532800  # 1980, where the time of zip files begins, and so that of wheels
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def in_order_of_likeness(files: list[Path]) -> list[Path]:
    """Orders files so that each follows those with which it shares most pairs of words.

    gzip finds repetitions over 32 KB only, so this saves 2 % compared with an order by names.
    """
    pairs = {}
    for file in files:
        words = re.findall(rb"\w+|[^\w\s]", file.read_bytes())
        pairs[file] = set(zip(words, words[1:], strict=False))
    rest, order = sorted(files), list[Path]()
    while rest:
        near, room = set[tuple[bytes, bytes]](), 32768
        for file in reversed(order):
            near |= pairs[file]
            room -= file.stat().st_size
            if room <= 0:
                break
        # A long file shares more with any other: weigh by a power of its size.
        likest = max(rest, key=lambda x: len(pairs[x] & near) / (1 + len(pairs[x])) ** 0.7)
        rest.remove(likest)
        order.append(likest)
    return order


def compress(content: bytes) -> bytes:
    """Makes a gzip file, 4 % smaller if zopfli is installed."""
    try:
        from zopfli import gzip as zopfli
    except ImportError:
        return gzip.compress(content, mtime=0)
    return zopfli.compress(content)


class SDist(sdist):
    """Leaves out redundant data.

    That is the folder egg-info (PKG-INFO says the same, and has the README), the entries of
    folders, and the owner and time of each file.
    """

    def make_release_tree(self, base_dir: str, files: list[str]) -> None:
        super().make_release_tree(base_dir, [file for file in files if ".egg-info" not in file])

    def make_archive(self, base_name: str, format: str, *args: Any, **kwargs: Any) -> Any:
        if format != "gztar":
            return super().make_archive(base_name, format, *args, **kwargs)
        path = Path(f"{base_name}.tar.gz")
        path.parent.mkdir(parents=True, exist_ok=True)
        files = [file for file in Path(kwargs["base_dir"]).rglob("*") if file.is_file()]
        content = io.BytesIO()
        with tarfile.open(fileobj=content, mode="w") as archive:
            for file in in_order_of_likeness(files):
                archive.add(file, filter=without_owner_and_time)
        path.write_bytes(compress(content.getvalue()))
        return str(path)
