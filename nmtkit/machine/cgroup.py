"""The limits of a container or a job of Slurm, Kubernetes or systemd: Linux's control groups, version 2."""

import re
from collections.abc import Iterator
from pathlib import Path

_ROOT = Path("/sys/fs/cgroup")
_OWN = Path("/proc/self/cgroup")


def limits(name: str) -> Iterator[str]:
    """The content of the file ``name`` (memory.max, cpu.max) of this process's group and of each group above it."""
    own = re.search(r"^0::/(.*)$", _OWN.read_text("utf-8") if _OWN.exists() else "", re.MULTILINE)
    folder = _ROOT / own[1] if own else _ROOT
    for group in (folder, *folder.parents):
        if group.is_relative_to(_ROOT) and (group / name).is_file():
            yield (group / name).read_text("utf-8").strip()
