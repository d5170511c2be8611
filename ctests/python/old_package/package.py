"""What the old package does with its shots, in the folder that it is started in.

    package.py START SHOTS PAUSE [BAD]

A pool of as many processes as there are cards, made by START (fork or spawn). The first shots are pinned to cards, the
others take the card that has most of its memory free at the moment they begin, PAUSE seconds after each other. Each
loads ./lib/acoustic1order.so and calls once a shot; nothing is looked at afterwards. BAD: that shot's model is not
there, and the next one's is too short. Writes out/NUMBER.bin, and to `calls` a line for each call.
"""

import multiprocessing
import os
import re
import subprocess
import sys
import time

import shots


def smi(*arguments):
    command = [os.path.join(os.path.dirname(os.path.abspath(__file__)), "nvidia-smi"), *arguments]
    return subprocess.run(command, capture_output=True, text=True).stdout


def freest():
    """The number of the card with the largest part of its memory free: as many questions as the old package asks."""
    cards = len(smi("-L").splitlines())
    numbers = lambda name: [int(found) for found in re.findall(rf"{name} *: (\d+) MiB", smi("-q"))]
    total, free = numbers("Total"), numbers("Free")
    return max(range(cards), key=lambda card: free[card] / total[card])


def shoot(number, shot, device):
    if device is None:
        device = freest()
    library = shots.load()
    begin = time.monotonic_ns()
    said = shot.call(library, f"out/{number}.bin", device)
    with open("calls", "a") as file:
        file.write(f"{os.getpid()} {begin} {time.monotonic_ns()} {number} {device} {said}\n")


def main(start, count, pause, bad=None):
    known = shots.all_shots()
    todo = [known[number % len(known)] for number in range(count)]
    if bad is not None:
        todo[bad], todo[bad + 1] = shots.Shot("iso1_corner", 0), shots.Shot("iso1_corner", 0)
        todo[bad].set(FNvel="nowhere.bin")
        with open("short.bin", "wb") as file:
            file.write(bytes(4000))
        todo[bad + 1].set(FNrho="short.bin")
    cards = len(smi("-L").splitlines())
    pool = multiprocessing.get_context(start).Pool(cards)
    for number, shot in enumerate(todo):
        pool.apply_async(shoot, (number, shot, number if number < cards else None))
        time.sleep(pause)
    pool.close()
    pool.join()


if __name__ == "__main__":
    start, count, pause, *bad = sys.argv[1:]
    main(start, int(count), float(pause), *map(int, bad))
