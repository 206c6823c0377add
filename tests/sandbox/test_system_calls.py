"""Every system call there is, from inside: those not on the list are refused, other ABIs kill."""

from __future__ import annotations

from runner import Runner

SIGSYS = 31
EPERM, ENOSYS = 1, 38
NUMBERS = range(601)
# rt_sigreturn ends its caller, as do uretprobe and uprobe, which the kernel takes only from its own
# trampolines and lets past seccomp.
DEADLY = {15, 335, 336}
CLONE3 = 435  # its ENOSYS lets libc fall back to clone

CALL = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
minus = ctypes.c_long(-1)
result = {}
for number in argument:
    ctypes.set_errno(0)
    got = libc.syscall(ctypes.c_long(number), minus, minus, minus, minus, minus, minus)
    result[number] = ctypes.get_errno() if got == -1 else 0
"""

OTHER_ABI = """
import ctypes, mmap, os, signal
libc = ctypes.CDLL(None, use_errno=True)
signal.signal(signal.SIGCHLD, signal.SIG_DFL)
def i386(number):
    code = b'\\xb8' + number.to_bytes(4, 'little') + b'\\xcd\\x80\\xc3'
    page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    page.write(code)
    address = ctypes.addressof(ctypes.c_char.from_buffer(page))
    ctypes.CFUNCTYPE(ctypes.c_int)(address)()
def x32(number):
    libc.syscall(ctypes.c_long(number | 0x40000000), 0, 0, 0, 0, 0, 0)
call = {'i386': i386, 'x32': x32}[argument['abi']]
result = {}
for number in range(argument['numbers']):
    pid = os.fork()
    if pid == 0:
        call(number)
        os._exit(0)
    result[number] = os.WTERMSIG(os.waitpid(pid, 0)[1])
"""


def test_calls_that_are_not_on_the_list_are_refused(runner: Runner) -> None:
    allowed = set(runner.report["system_calls"])
    assert 40 < len(allowed) < 260
    denied = [number for number in NUMBERS if number not in allowed | DEADLY]
    answer = runner.script(CALL, denied)
    assert answer.results, answer.raw
    errors = {int(number): error for number, error in answer.results[0].items()}
    assert errors == {number: ENOSYS if number == CLONE3 else EPERM for number in denied}


def test_the_i386_abi_kills(runner: Runner) -> None:
    answer = runner.script(OTHER_ABI, {"abi": "i386", "numbers": 460})
    assert answer.results, answer.raw
    # Where the kernel has no 32-bit entry at all, int 0x80 is a fault.
    assert set(answer.results[0].values()) <= {SIGSYS, 11}


def test_the_x32_abi_kills(runner: Runner) -> None:
    answer = runner.script(OTHER_ABI, {"abi": "x32", "numbers": 560})
    assert answer.results, answer.raw
    assert set(answer.results[0].values()) == {SIGSYS}


def test_dangerous_calls_are_not_on_the_list(runner: Runner) -> None:
    dangerous = {
        "socket": 41,
        "connect": 42,
        "bind": 49,
        "listen": 50,
        "execve": 59,
        "ptrace": 101,
        "setuid": 105,
        "pivot_root": 155,
        "chroot": 161,
        "mount": 165,
        "umount2": 166,
        "init_module": 175,
        "add_key": 248,
        "keyctl": 250,
        "unshare": 272,
        "splice": 275,
        "vmsplice": 278,
        "perf_event_open": 298,
        "open_by_handle_at": 304,
        "setns": 308,
        "process_vm_readv": 310,
        "finit_module": 313,
        "seccomp": 317,
        "memfd_create": 319,
        "bpf": 321,
        "execveat": 322,
        "userfaultfd": 323,
        "io_uring_setup": 425,
        "io_uring_enter": 426,
        "open_tree": 428,
        "move_mount": 429,
        "pidfd_getfd": 438,
        "mount_setattr": 442,
    }
    allowed = set(runner.report["system_calls"])
    assert {name for name, number in dangerous.items() if number in allowed} == set()
