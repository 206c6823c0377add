"""The attack corpus: small programs, each the same outside (where it must succeed) and inside.

Each source sees `argument` and leaves in `result` what it got away with; anything false, or an
exception, is a defeat. `argument["scratch"]` is a folder that it may fill when outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Attack:
    """One program, what it needs, and the limits that it runs against inside."""

    name: str
    source: str
    limits: dict[str, int] = field(default_factory=dict)
    needs_root: bool = False  # for the control


SYSCALL = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def syscall(number, *arguments):
    ctypes.set_errno(0)
    values = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    got = libc.syscall(ctypes.c_long(number), *values)
    if got < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return got
"""

ATTACKS = [
    # --- files
    Attack("reads a file of the host by its path", "result = open(argument['secret']).read()"),
    Attack(
        "reads the host's accounts",
        "result = open('/etc/passwd').read()",
    ),
    Attack(
        "walks up from its root",
        "import os\nresult = os.path.exists('/../../../..' + argument['secret'])",
    ),
    Attack(
        "goes through /proc/self/root",
        "result = open('/proc/self/root' + argument['secret']).read()",
    ),
    Attack(
        "goes through another process's root",
        "result = open(f\"/proc/{argument['pid']}/root\" + argument['secret']).read()",
    ),
    Attack(
        "follows a link out of its vfolder",
        "result = open(argument['data'] + '/way_out').read()",
    ),
    Attack(
        "climbs out of its vfolder by a directory's descriptor",
        """
import os
here = os.open(argument['data'], os.O_RDONLY)
result = open(os.open('../secret.txt', os.O_RDONLY, dir_fd=here)).read()
""",
    ),
    Attack(
        "finds another tenant's folder anywhere",
        """
import os
result = False
tops = [argument['top']] if os.path.exists(argument['top']) else ['/']
for top in tops:
    for folder, _, files in os.walk(top):
        if folder.startswith(('/usr', '/proc', '/dev')):
            continue
        if argument['canary'] in files:
            result = folder
""",
    ),
    Attack(
        "writes into its vfolder",
        "open(argument['data'] + '/new.txt', 'w').write('x')\nresult = True",
    ),
    Attack(
        "changes a file of its vfolder",
        "open(argument['data'] + '/a.txt', 'r+').write('x')\nresult = True",
    ),
    Attack(
        "deletes from its vfolder",
        "import os\nos.unlink(argument['data'] + '/doomed.txt')\nresult = True",
    ),
    Attack(
        "links a file of its vfolder to where it may write",
        """
import os
os.link(argument['data'] + '/a.txt', argument['scratch'] + '/linked')
result = True
""",
    ),
    Attack(
        "writes where the program's files are",
        """
import os
place = argument['scratch'] if os.path.exists(argument['scratch'] + '/outside') else os.path.dirname(os.__file__)
open(place + '/planted.py', 'w').write('x')
result = True
""",
    ),
    Attack(
        "makes a device",
        "import os, stat\nos.mknod(argument['scratch'] + '/disk', 0o600 | stat.S_IFBLK, os.makedev(254, 0))\nresult = True",
        needs_root=True,
    ),
    Attack(
        "wins a race by swapping a link",
        """
import os, threading, time
place = argument['scratch']
os.makedirs(place + '/inner', exist_ok=True)
open(place + '/inner/passwd', 'w').write('mine')
stop = False
def swap():
    while not stop:
        for target in (place + '/inner', os.path.dirname(argument['secret'])):
            try:
                os.symlink(target, place + '/next')
                os.rename(place + '/next', place + '/turn')
            except OSError:
                pass
thread = threading.Thread(target=swap)
thread.start()
result = False
until = time.time() + 2
while time.time() < until and not result:
    try:
        result = 'secret' in open(place + '/turn/secret.txt').read()
    except OSError:
        pass
stop = True
thread.join()
""",
    ),
    # --- network
    Attack(
        "connects to a port of the host",
        """
import socket
socket.create_connection(('127.0.0.1', argument['tcp']), 2).send(b'x')
result = True
""",
    ),
    Attack(
        "sends a datagram, as a name look-up would",
        """
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
result = s.sendto(b'x', ('127.0.0.1', argument['tcp'])) == 1
""",
    ),
    Attack(
        "connects to an abstract socket",
        """
import socket
s = socket.socket(socket.AF_UNIX)
s.connect(argument['abstract'])
result = True
""",
    ),
    Attack(
        "listens",
        """
import socket
s = socket.socket()
s.bind(('127.0.0.1', 0))
s.listen()
result = True
""",
    ),
    Attack(
        "opens a netlink socket",
        "import socket\nsocket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)\nresult = True",
    ),
    # --- processes
    Attack(
        "runs a program",
        "import subprocess\nresult = subprocess.run(['/bin/true']).returncode == 0",
    ),
    Attack(
        "runs a program from memory",
        """
import os
fd = os.memfd_create('x')
os.write(fd, open('/bin/true', 'rb').read())
pid = os.fork()
if pid == 0:
    try:
        os.execve(fd, ['x'], {})
    except OSError:
        os._exit(9)
result = os.waitpid(pid, 0)[1] == 0
""",
    ),
    Attack(
        "sends a signal to another process", "import os\nos.kill(argument['pid'], 0)\nresult = True"
    ),
    Attack(
        "sends a signal to everyone",
        "import os\nos.kill(argument['pid'] if os.getpid() != 1 else -1, 0)\nresult = os.getpid() != 1",
    ),
    Attack(
        "reads another process's memory",
        SYSCALL
        + """
class Part(ctypes.Structure):
    _fields_ = [('base', ctypes.c_void_p), ('length', ctypes.c_size_t)]
here = ctypes.create_string_buffer(8)
maps = open(f"/proc/{argument['pid']}/maps").readline()
local = Part(ctypes.addressof(here), 8)
remote = Part(int(maps.split('-')[0], 16), 8)
result = syscall(310, argument['pid'], ctypes.byref(local), 1, ctypes.byref(remote), 1, 0) == 8
""",
    ),
    Attack(
        "traces a child of its own",
        SYSCALL
        + """
pid = os.fork()
if pid == 0:
    try:
        syscall(101, 0, 0, 0, 0)
        os._exit(0)
    except OSError:
        os._exit(9)
result = os.waitpid(pid, 0)[1] == 0
""",
    ),
    Attack(
        "starts hundreds of processes",
        """
import os
children = []
try:
    for _ in range(300):
        pid = os.fork()
        if pid == 0:
            import time
            time.sleep(60)
            os._exit(0)
        children.append(pid)
finally:
    for pid in children:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
result = len(children) >= 300
""",
        limits={"processes": 32},
    ),
    Attack(
        "starts hundreds of threads",
        """
import threading
event = threading.Event()
threads = []
try:
    for _ in range(300):
        thread = threading.Thread(target=event.wait)
        thread.start()
        threads.append(thread)
finally:
    event.set()
    for thread in threads:
        thread.join()
result = len(threads) >= 300
""",
        limits={"processes": 32},
    ),
    # --- the kernel
    Attack("unshares a user namespace", SYSCALL + "result = syscall(272, 0x10000000) == 0"),
    Attack(
        "unshares a mount namespace",
        SYSCALL + "result = syscall(272, 0x20000) == 0",
        needs_root=True,
    ),
    Attack(
        "clones into a user namespace",
        SYSCALL
        + """
pid = syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
if pid == 0:
    os._exit(0)
os.waitpid(pid, 0)
result = True
""",
    ),
    Attack(
        "mounts",
        SYSCALL
        + """
pid = os.fork()
if pid == 0:
    try:
        if argument['outside']:
            syscall(272, 0x20000)
            syscall(165, b'none', b'/', None, 0x44000, None)
        syscall(165, b'x', argument['scratch'].encode(), b'tmpfs', 0, None)
        os._exit(0)
    except OSError:
        os._exit(9)
result = os.waitpid(pid, 0)[1] == 0
""",
        needs_root=True,
    ),
    Attack(
        "makes its root writable again",
        SYSCALL
        + """
pid = os.fork()
if pid == 0:
    try:
        if argument['outside']:
            syscall(272, 0x20000)
        import struct
        attributes = ctypes.create_string_buffer(struct.pack('QQQQ', 0, 1, 0, 0))
        syscall(442, -100 & 0xffffffffffffffff, b'/', 0, attributes, 32)
        os._exit(0)
    except OSError:
        os._exit(9)
result = os.waitpid(pid, 0)[1] == 0
""",
        needs_root=True,
    ),
    Attack("changes its root", SYSCALL + "result = syscall(161, b'/') == 0", needs_root=True),
    Attack(
        "takes another identity",
        "import os\npid = os.fork()\nif pid == 0:\n    try:\n        os.setuid(argument['uid'])\n        os._exit(0)\n    except OSError:\n        os._exit(9)\nresult = os.waitpid(pid, 0)[1] == 0",
        needs_root=True,
    ),
    Attack(
        "stores a key in the kernel",
        SYSCALL
        + "result = syscall(248, b'user', b'onggi-test', b'x', 1, -3 & 0xffffffffffffffff) > 0",
    ),
    Attack(
        "makes an io_uring",
        SYSCALL + "result = syscall(425, 4, ctypes.create_string_buffer(120)) >= 0",
    ),
    Attack("watches pages by userfaultfd", SYSCALL + "result = syscall(323, 1) >= 0"),
    Attack(
        "counts events of the processor",
        SYSCALL
        + """
import struct
attributes = ctypes.create_string_buffer(struct.pack('IIQQQQQ', 1, 112, 0, 0, 0, 0, 1 | 1 << 5) + bytes(64))
result = syscall(298, attributes, 0, -1 & 0xffffffffffffffff, -1 & 0xffffffffffffffff, 0) >= 0
""",
    ),
    Attack(
        "asks for a handle of a file",
        SYSCALL
        + """
handle = ctypes.create_string_buffer((128).to_bytes(4, 'little') + bytes(132))
mount = ctypes.c_int()
result = syscall(303, -100 & 0xffffffffffffffff, b'/', handle, ctypes.byref(mount), 0) == 0
""",
    ),
    Attack(
        "types into a terminal, with bits above the command's",
        SYSCALL
        + """
number = 0x5412 | 1 << 32
try:
    syscall(16, 0, number, ctypes.create_string_buffer(b'x'))
    result = True
except OSError as error:
    result = error.errno != errno.EPERM
""",
    ),
    Attack("makes its memory visible again", SYSCALL + "result = syscall(157, 4, 1, 0, 0, 0) == 0"),
    Attack(
        "changes the machine's name",
        "import socket\nresult = socket.sethostname(socket.gethostname()) is None",
        needs_root=True,
    ),
    # --- amounts
    Attack(
        "takes more memory than it may",
        "parts = [bytearray(b'x' * (16 << 20)) for _ in range(24)]\nresult = len(parts) == 24",
        limits={"memory_bytes": 128 << 20},
    ),
    Attack(
        "takes it in children",
        """
import os
children = []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        block = bytearray(b'x' * (64 << 20))
        os._exit(0 if len(block) else 1)
    children.append(os.waitpid(pid, 0)[1])
    keep = bytearray(b'x' * (32 << 20)) if len(children) == 1 else keep + bytearray(b'x' * (32 << 20))
result = not any(children)
""",
        limits={"memory_bytes": 128 << 20},
    ),
    Attack(
        "fills the disk",
        """
with open(argument['scratch'] + '/fill', 'wb') as file:
    for _ in range(96):
        file.write(bytes(1 << 20))
import os
result = os.path.getsize(argument['scratch'] + '/fill') == 96 << 20
""",
        limits={"memory_bytes": 256 << 20},
    ),
    Attack(
        "makes endless files",
        """
import os
for n in range(70_000):
    os.close(os.open(f"{argument['scratch']}/{n}", os.O_CREAT | os.O_WRONLY))
result = True
""",
    ),
    Attack(
        "opens descriptors without end",
        """
import os, resource
if argument['outside']:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
got = [os.open('/dev/null', os.O_RDONLY) for _ in range(2000)]
result = len(got) == 2000
for fd in got:
    os.close(fd)
""",
    ),
    Attack(
        "cuts the arena short under the daemon",
        """
import os
fd = 4
if argument['outside']:
    fd = os.memfd_create('arena')
    os.ftruncate(fd, 4096)
os.ftruncate(fd, 0)
result = True
""",
    ),
]
