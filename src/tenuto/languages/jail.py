"""What a process does to itself before it runs a user's code: it ends with its parent, has limits, can start nothing.

Linux; elsewhere only the limits that `resource` knows hold. Runs in the child, with the standard library alone. It is
no wall against an enemy: files and, unless `lock` is told otherwise, the network stay as they are.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import struct
import sys

_PDEATHSIG, _SECCOMP, _NO_NEW_PRIVS = 1, 22, 38  # prctl's numbers
_FILTER = 2

# Numbers of system calls by machine: starting processes and looking into others.
_CALLS = {
    "x86_64": {
        "audit": 0xC000003E,
        "clone": 56,
        "clone3": 435,
        # fork, vfork, ptrace, process_vm_readv, process_vm_writev, unshare, setns, bpf, userfaultfd, io_uring_setup,
        # pidfd_getfd
        "closed": (57, 58, 101, 310, 311, 272, 308, 321, 323, 425, 438),
        "exec": (59, 322),
        "socket": (41, 53),
    },
    "aarch64": {
        "audit": 0xC00000B7,
        "clone": 220,
        "clone3": 435,
        "closed": (117, 270, 271, 97, 268, 280, 282, 425, 438),
        "exec": (221, 281),
        "socket": (198, 199),
    },
}
_CLONE_THREAD = 0x00010000
_OTHER_NUMBERS = 0x40000000
"""A bit of the numbers of x32, under which x86-64 has all its calls once more."""
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_EPERM, _ENOSYS = 1, 38
_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06


def end_with(parent: int) -> None:
    """Be killed when the parent dies, whatever kills it. `parent`: the process that must be the parent still."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it died before this line


def limit(*, memory: int | None, cpu_s: int | None, files: int) -> None:
    """Bound what this process may take: address space beyond what it has, CPU seconds, bytes of one file."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (files, files))
    _lower(resource.RLIMIT_NOFILE, 256)
    if cpu_s is not None:
        _lower(resource.RLIMIT_CPU, cpu_s)
    if memory is not None:
        _lower(resource.RLIMIT_AS, _address_space() + memory)


def lock(*, network: bool, programs: bool = False) -> bool:
    """Give up for good: new privileges, new processes, looking into other processes; other programs and the network,
    unless told otherwise. Threads stay possible. False: this machine has no such lock.
    """
    calls = _CALLS.get(os.uname().machine)
    if sys.platform != "linux" or calls is None:
        return False
    refused = calls["closed"]
    assert isinstance(refused, tuple)
    if not programs:
        refused = (*refused, *calls["exec"])  # type: ignore[misc]
    if not network:
        refused = (*refused, *calls["socket"])  # type: ignore[misc]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_NO_NEW_PRIVS, 1, 0, 0, 0):
        return False
    rules = _rules(calls["audit"], calls["clone"], calls["clone3"], refused)  # type: ignore[arg-type]
    text = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
    header = struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(text))
    return bool(libc.prctl(_SECCOMP, _FILTER, ctypes.c_char_p(header), 0, 0) == 0)


def _rules(
    audit: int, clone: int, clone3: int, refused: tuple[int, ...]
) -> list[tuple[int, int, int, int]]:
    """A filter of the kernel's: (what, jump if so, jump if not, operand). clone3 hides its flags in memory, so it is
    said not to exist, and the C library takes clone.
    """
    rules = [
        (_LOAD, 0, 0, 4),  # which machine's numbers
        (_EQUAL, 1, 0, audit),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_LOAD, 0, 0, 0),  # which call
        (_ANY_BIT, 1, 0, _OTHER_NUMBERS),
        (_EQUAL, 0, 1, clone3),
        (_RETURN, 0, 0, _ERRNO | _ENOSYS),
    ]
    for number in refused:
        rules += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | _EPERM)]
    rules += [
        (_EQUAL, 0, 3, clone),
        (_LOAD, 0, 0, 16),  # its flags
        (_ANY_BIT, 1, 0, _CLONE_THREAD),
        (_RETURN, 0, 0, _ERRNO | _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return rules


def _lower(kind: int, wanted: int) -> None:
    """Set a limit for good; one that is lower already stays."""
    _, hard = resource.getrlimit(kind)
    value = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(kind, (value, value))


def _address_space() -> int:
    """Bytes that this process has mapped."""
    try:
        with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - pathlib would be loaded for it
            return int(file.read().split()[0]) * resource.getpagesize()
    except OSError:
        return 256 * 2**20
