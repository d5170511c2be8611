"""The floating-point mode of callables: that of the thread that submits them."""

import ctypes
import platform
import struct
import unittest
from typing import Any

import gpusched

FE_UPWARD = 0x800
FLUSHES = 0x8040
libm = ctypes.CDLL("libm.so.6") if platform.system() == "Linux" else None


def set_flush() -> None:
    """Sets flush-to-zero and denormals-are-zero: MXCSR is the last word of glibc's fenv_t."""
    environment = ctypes.create_string_buffer(32)
    libm.fegetenv(environment)
    mxcsr = struct.unpack("I", environment.raw[28:])[0]
    libm.fesetenv(environment.raw[:28] + struct.pack("I", mxcsr | FLUSHES))


def results() -> tuple[float, float, int]:
    """Returns 1/3, a denormal number times 1, and the rounding direction."""
    one, three, denormal = float("1"), float("3"), struct.unpack("d", b"\x39\x30" + bytes(6))[0]
    return one / three, denormal * one, libm.fegetround()


@unittest.skipUnless(libm and platform.machine() == "x86_64", "glibc's fenv_t of x86-64")
class FloatMode(unittest.TestCase):
    def setUp(self) -> None:
        self.before = ctypes.create_string_buffer(32)
        libm.fegetenv(self.before)
        self.scheduler = gpusched.Scheduler(devices="cpu", slots=2)

    def tearDown(self) -> None:
        libm.fesetenv(self.before)
        self.scheduler.close()

    def seen(self) -> list[Any]:
        """Returns the results of callables that leave another mode behind."""

        def note(exec: gpusched.Exec) -> tuple[float, float, int]:
            found = results()
            libm.fesetenv(self.before)
            return found

        tasks = [self.scheduler.submit(note, label="labelled" if i % 3 else "") for i in range(12)]
        found = [task.wait() for task in tasks]
        return found + self.scheduler.map(lambda _: results(), range(12), grain=1)

    def test_callables_round_and_flush_as_their_submitter(self) -> None:
        standard = results()
        libm.fesetround(FE_UPWARD)
        upward, upward_seen = results(), self.seen()
        set_flush()
        both, both_seen, kept = results(), self.seen(), results()
        libm.fesetenv(self.before)
        standard_seen = self.seen()
        self.assertEqual(len({standard, upward, both}), 3)
        self.assertEqual(set(upward_seen), {upward})
        self.assertEqual(set(both_seen), {both})
        self.assertEqual(kept, both)
        self.assertEqual(set(standard_seen), {standard})


if __name__ == "__main__":
    unittest.main()
