"""What the old package does with its shots, in the folder that it is started in.

    package.py START SHOTS PAUSE [BAD]

A pool of as many processes as there are GPUs, made by START (fork or spawn). The shots begin PAUSE
seconds after each other, and each names a GPU, which is ignored. Each
loads ./lib/acoustic1order.so and calls once a shot; nothing is looked at afterwards. BAD: that shot's model is not
there, and the next one's is too short. Writes out/NUMBER.bin, and to `calls` a line for each call.
"""

import multiprocessing
import os
import sys
import time

import node
import shots


def shoot(number, shot, device):
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
    gpus = len(node.SPEEDS)
    pool = multiprocessing.get_context(start).Pool(gpus)
    for number, shot in enumerate(todo):
        pool.apply_async(shoot, (number, shot, number % gpus))
        time.sleep(pause)
    pool.close()
    pool.join()


if __name__ == "__main__":
    start, count, pause, *bad = sys.argv[1:]
    main(start, int(count), float(pause), *map(int, bad))
