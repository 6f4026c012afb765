"""Settings of the documentation, which `make docs` builds."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "extensions"))

import pkg

project = "pipcudemo"
author = "the pipcudemo contributors"
copyright = f"2026, {author}"
version = release = pkg.__version__

extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_nb", "c_header", "names"]
exclude_patterns = ["extensions", "**/.ipynb_checkpoints"]
default_role = "name"
add_module_names = False
nitpicky = True
nitpick_ignore = [("c:identifier", f"{kind}_t") for kind in ("size", "int32", "int64", "uint64")]

# Docstrings say what the arguments are; the annotations are for type checkers.
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False

myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds a cell; machines may be busy
nb_merge_streams = True

html_theme = "furo"
html_title = f"pipcudemo {version}"
html_copy_source = False
html_show_sourcelink = False
html_show_sphinx = False
