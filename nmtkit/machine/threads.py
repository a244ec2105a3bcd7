"""The number of threads for training: PyTorch's default, or fewer if other processes keep the cores busy.

All threads wait for the slowest: if another process runs on one of two cores, small operations take several times as
long with two threads as with one.
"""

import logging
import os
import timeit

import torch

log = logging.getLogger(__name__)

LATE = 2.0  # maximum time over that of one thread; never reached on idle cores
ROWS, WIDTH = 80, 512  # of a typical recurrent step


def choose_threads(began_with: int) -> int:
    """Set and return this process's number of threads.

    began_with: the threads of a resumed run, which are kept because they affect rounding, or 0 for a new run. For a new
    run, PyTorch's number is halved until a recurrence takes less than twice as long as with one thread (0.1 s per
    measurement). ``OMP_NUM_THREADS`` in the environment takes precedence.
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
            log.info("using %d of %d threads: other processes keep this machine busy; OMP_NUM_THREADS overrides this",
                     chosen, count)  # fmt: skip
    torch.set_num_threads(chosen)
    return chosen


def _seconds(threads: int) -> float:
    """The seconds that a recurrence takes."""
    torch.set_num_threads(threads)
    state, weight = torch.zeros(ROWS, WIDTH), torch.zeros(WIDTH, 2 * WIDTH)
    # The first of the four also starts the threads.
    return min(timeit.repeat(lambda: (state @ weight).sigmoid_(), number=100, repeat=4))
