"""The number of threads for training: PyTorch's own, or fewer where other processes keep the cores busy.

Threads share every operation and wait for the slowest of them, which is late again and again where another process uses
one of the cores: with two threads on two cores, one of them busy, small operations take several times as long as with
one thread, which is not affected.
"""

import logging
import os
import time

import torch

log = logging.getLogger(__name__)

LATE = 2.0  # times as long as with one thread: threads that are in each other's way; they never are on idle cores
ROWS, WIDTH = 80, 512  # of a step of a usual recurrence


def choose_threads(began_with: int) -> int:
    """Sets and returns how many threads this process computes with.

    ``began_with``: of the run that goes on, which keeps its number because sums in another order round differently; 0
    where a run begins. Then it is what PyTorch has, halved until operations do not take twice as long as with one
    thread (a tenth of a second each to measure). ``OMP_NUM_THREADS`` in the environment is obeyed, always.
    """
    count = torch.get_num_threads()
    if "OMP_NUM_THREADS" in os.environ or count == 1:
        return count
    if began_with:
        chosen = min(began_with, count)
    else:
        chosen, alone = count, _seconds(1)
        while chosen > 1 and _seconds(chosen) > LATE * alone:
            chosen //= 2
        if chosen < count:
            log.info("%d of %d threads: other processes keep this machine busy; OMP_NUM_THREADS says otherwise",
                     chosen, count)  # fmt: skip
    torch.set_num_threads(chosen)
    return chosen


def _seconds(threads: int) -> float:
    """The seconds that a recurrence takes with so many threads: the least of three, which no passing task stretches."""
    torch.set_num_threads(threads)
    state, weight = torch.zeros(ROWS, WIDTH), torch.zeros(WIDTH, 2 * WIDTH)
    times = []
    for _ in range(4):  # the first one starts the threads
        started = time.perf_counter()
        for _ in range(100):
            (state @ weight).sigmoid_()
        times.append(time.perf_counter() - started)
    return min(times[1:])
