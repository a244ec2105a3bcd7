"""With ``DEVICE=simulated`` the tests run on a simulated GPU."""

import os

from nmtkit.kernels import door
from tests.gpu import simulated

LIBRARIES = simulated.begin() if os.environ.get("DEVICE") == simulated.NAME else []
if LIBRARIES:
    door.COMPILED = simulated.NAME
