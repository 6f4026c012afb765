"""``python -m pkg``: the version, the build, the CPU and the GPUs, and why there is no GPU if so."""

from . import show_config

show_config()
