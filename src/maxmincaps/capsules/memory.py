"""Memory that stays: freed blocks of tens of MB are used again instead of being given back and faulted in every step.

glibc returns a large block to the kernel as soon as it is freed. The next step gets it back as fresh pages, one fault
and one clearing for every 4 kB: a third of the time of a training step. Told to keep such blocks, it does not.
"""

import ctypes
import os

SWITCH = "MAXMINCAPS_KEEP_MEMORY"

# From glibc's malloc.h, with the largest value that mallopt takes.
TRIM_THRESHOLD, MMAP_THRESHOLD = -1, -3
LARGEST = 2**31 - 1


def keep_large_blocks() -> bool:
    """Tell glibc's allocator to keep freed blocks of any size for reuse; say whether it does now.

    It holds for the whole process from here on. Elsewhere (musl, macOS, Windows), or with MAXMINCAPS_KEEP_MEMORY=0 in
    the environment, this does nothing.
    """
    if os.environ.get(SWITCH) == "0" or os.name != "posix":
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version"):
        return False
    # Large blocks come from the heap instead of from mappings of their own, and the heap never shrinks.
    return all([library.mallopt(MMAP_THRESHOLD, LARGEST), library.mallopt(TRIM_THRESHOLD, LARGEST)])
