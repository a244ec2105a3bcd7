"""With ``DEVICE=simulated`` the tests run on a simulated GPU."""

import os

from nmtkit.kernels import door
from tests.gpu import simulated
from tests.toys import one_of_each, simplest

LIBRARIES = []
if os.environ.get("DEVICE") == simulated.NAME:
    one_of_each(simplest, switches=False)  # it is cached; with the simulated GPU it would take ten seconds more
    LIBRARIES = simulated.begin()
if LIBRARIES:
    door.COMPILED = simulated.NAME
