"""Keep freed memory for reuse, for training loops on a CPU under Linux.

glibc returns a large block to the kernel as soon as it is freed. The next training step gets it back as fresh pages,
with one page fault for every 4 kB: a third of the time of a step. `keep_large_blocks` makes glibc keep such blocks.
"""

import ctypes
import os

SWITCH = "MAXMINCAPS_KEEP_MEMORY"

# From glibc's malloc.h, with the largest value that mallopt takes.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1


def keep_large_blocks() -> bool:
    """Make glibc's allocator keep freed blocks of any size for reuse, in the whole process from now on.

    `fit`, the classifier and the commands call this; call it once before a training loop of your own. It does nothing
    on other systems (musl, macOS, Windows) or with MAXMINCAPS_KEEP_MEMORY=0 in the environment.

    Returns:
        Whether the allocator keeps freed blocks now.
    """
    if os.environ.get(SWITCH) == "0" or os.name != "posix":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # Large blocks come from the heap instead of from mappings of their own, and the heap never shrinks.
    return all([library.mallopt(MMAP_THRESHOLD, LARGEST), library.mallopt(TRIM_THRESHOLD, LARGEST)])
