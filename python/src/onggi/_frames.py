"""The head of a frame, its kinds and its flags: one table for the client and for the workers.

docs/protocol.md is the reference; src/active/frame.h is the same in C++. Imports nothing of ours,
so that a worker can have it without the client.
"""

from __future__ import annotations

import struct

MAGIC = 0x49474E4F
# Magic, kind, flags, channel, sequence, zero, length and XXH3-64 of the body.
HEAD = struct.Struct("<IBBHIIQQ")

SPEC, PAYLOAD, COMMAND, TASK, BATCH, PROGRESS, LOG, ERROR, END = range(1, 10)
# Between the daemon and a worker only.
RELEASE, START, READY = 32, 33, 34

FLAG_EXHAUSTED = 0x01
FLAG_LAST = 0x02
FLAG_IN_ARENA = 0x80
