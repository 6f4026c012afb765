"""``python -m pkg``: the version, the build, the CPU, the GPUs, and why there is none if so."""

from . import show_config

show_config()
