"""How much memory something takes, measured in a process of its own."""

import mmap
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

# Linux counts the parent's memory in ru_maxrss of a process that it has forked, VmHWM only its own.
# Windows has psutil, which comes with Dask.
_PEAK = """
import pathlib, sys
status = pathlib.Path("/proc/self/status")
if sys.platform == "win32":
    import psutil
    peak = psutil.Process().memory_info().peak_wset
elif status.exists():
    peak = int(status.read_text().partition("VmHWM:")[2].split()[0]) * 1024
else:
    import resource
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
print(peak // 2**20)
"""


def peak_memory(code: str, *arguments: str) -> int:
    """RETURNS (int): The most resident memory that a program ever had, in megabytes."""
    command = [sys.executable, "-c", dedent(code) + _PEAK, *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout.split()[-1])


def resident_memory() -> int:
    """RETURNS (int): The memory that this process has now, in megabytes; 0 where nobody tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * mmap.PAGESIZE // 2**20
