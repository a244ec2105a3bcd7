"""CUDA graphs of the forward and backward passes, for batches whose shapes recur.

An update of a recurrent model launches thousands of short kernels, and the host takes several times as long to launch
them as the GPU to compute them. A CUDA graph is recorded once and then launched as a whole. Its shapes and addresses
are fixed, so batches are padded to few shapes (``batches.collate``), and gradients are accumulated in place. The output
layer is not part of a graph, because its number of words varies. Results differ from those without graphs by rounding.

Letters: B sentences, S source words, T target words, H hidden.
"""

import logging
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.errors import UserError
from nmtkit.kernels import door
from nmtkit.machine.memory import free_memory, is_full
from nmtkit.models.base import Seq2Seq

log = logging.getLogger(__name__)

MOST = 512  # graphs
ROOM = 0.25  # of a GPU's memory, which stays free for batches without a graph
Shape = tuple[int, ...]


def graphs_for(device: torch.device) -> "Graphs | None":
    """The graphs of a training run on this device; None on a CPU, and if the environment switches them off."""
    return Graphs() if device.type == "cuda" and door.GRAPHS not in door.switched_off() else None


class Graphs:
    """The graphs of one model, by the shape of the batch.

    The first batch of a shape is computed without a graph, which also compiles kernels and allocates gradients; the
    second one is recorded. All gradients must then stay where they are: set them to zero, not to None.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most  # how many are recorded
        self._seen: dict[Shape, Tensor] = {}  # without data: the hidden states of a batch of this shape
        self._recorded: dict[Shape, _Recorded] = {}
        self._place: Place | None = None
        self._buffers = torch.empty(2, 0)  # for hidden states and their gradients, shared by graphs of all shapes
        self._released = False

    def hidden(self, model: Seq2Seq, src: Tensor, mask: Tensor, tgt: Tensor) -> Tensor:
        """``model(src, mask, tgt)``: src (B, S), mask (B, S), tgt (B, T) -> (B, T, H).

        Valid until the next call; its gradient is propagated to the parameters at most once.
        """
        shape = (*src.shape, tgt.shape[1])
        recorded = self._recorded.get(shape)
        if recorded is None and shape in self._seen and self._may_record(src.device):
            recorded = self._record(shape, model, src, mask, tgt)
        if recorded is None:
            found: Tensor = model(src, mask, tgt)
            self._seen[shape] = found.detach().to("meta")
            return found
        for ours, theirs in zip(recorded.inputs, (src, mask, tgt), strict=True):
            ours.copy_(theirs)
        replayed: Tensor = _Replay.apply(recorded, torch.zeros((), device=src.device, requires_grad=True))
        return replayed

    def release(self) -> bool:
        """Free the memory of all graphs after a batch did not fit into the rest; returns whether there were any.

        They are recorded again, but not after the second time.
        """
        if not self._recorded:
            return False
        again = "continuing without them, which is slower" if self._released else "recording them again"
        log.warning("out of memory with %d CUDA graphs; %s", len(self._recorded), again)
        self.clear()
        if self._released:
            self._most = 0
        self._released = True
        return True

    def clear(self) -> None:
        """Forget all graphs and shapes."""
        self._recorded.clear()
        self._seen.clear()
        self._place, self._buffers = None, torch.empty(2, 0)

    def _may_record(self, device: torch.device) -> bool:
        """Whether there is room for one more graph; if not, no more are recorded."""
        if self._most and len(self._recorded) == self._most:
            self._stop("no more are recorded")
        elif self._most and room(device) < ROOM:
            self._stop("there is no memory for more")
        return self._most > 0

    def _stop(self, reason: str) -> None:
        """Record no more graphs."""
        log.warning("%d CUDA graphs; %s, so updates with batches of other shapes are slower",
                    len(self._recorded), reason)  # fmt: skip
        self._most = 0

    def _record(self, shape: Shape, model: Seq2Seq, *inputs: Tensor) -> "_Recorded | None":
        """The graphs of a shape; None if they do not fit into memory. Raises UserError if recording fails otherwise."""
        try:
            self._place = self._place or place_on(inputs[0].device)
            hidden, gradient = self._views(self._seen[shape], inputs[0].device)
            self._recorded[shape] = _Recorded(model, [x.clone() for x in inputs], hidden, gradient, self._place)
        except RuntimeError as error:
            # Autocast has kept converted weights, which recording has not computed.
            torch.clear_autocast_cache()
            if is_full(error):
                self._stop("there is no memory for more")
                return None
            # PyTorch's random numbers do not work any more.
            reason = str(error).splitlines()[0]
            remedy = f"start again with {door.SWITCH}={door.GRAPHS} in the environment, which is slower"
            raise UserError(f"recording a CUDA graph failed ({reason}); {remedy}") from None
        return self._recorded[shape]

    def _views(self, like: Tensor, device: torch.device) -> list[Tensor]:
        """Two tensors of a shape and dtype in the buffers, which are replaced if they are too small."""
        size = like.numel()
        if self._buffers.shape[1] < size:
            self._buffers = torch.zeros(2, size, dtype=like.dtype, device=device)
        return [buffer[:size].view(like.shape) for buffer in self._buffers]


class Place(NamedTuple):
    """Where the graphs of a model are recorded."""

    pool: Any  # memory that all share, because only one at a time is used
    stream: Any


class _Recorded:
    """The forward and backward passes of one shape; all tensors have fixed addresses."""

    def __init__(self, model: Seq2Seq, inputs: list[Tensor], hidden: Tensor, gradient: Tensor, place: Place):
        self.inputs = inputs
        self.hidden = hidden  # (B, T, H), to which forward writes
        self.gradient = gradient  # (B, T, H), which backward reads
        output = hidden  # then that of the model, with its autograd graph

        def forward() -> None:
            nonlocal output
            with torch.enable_grad():
                output = model(*inputs)
            hidden.copy_(output.detach())

        def backward() -> None:
            # Outside of autocast, as without a graph.
            with torch.autocast(gradient.device.type, enabled=False):
                output.backward(gradient)

        self.forward = record(forward, place)
        self.backward = record(backward, place)  # afterwards, the next graph uses the memory of output


def place_on(device: torch.device) -> Place:
    """Memory and a stream for graphs on this GPU."""
    return Place(torch.cuda.graph_pool_handle(), torch.cuda.Stream(device))


def room(device: torch.device) -> float:
    """The free fraction of a GPU's memory."""
    torch.cuda.empty_cache()  # recording does the same
    return free_memory(device) / torch.cuda.get_device_properties(device).total_memory


def record(function: Callable[[], None], place: Place) -> Callable[[], None]:
    """A function that launches all kernels that ``function`` launches now, with the same addresses."""
    with torch.cuda.device(place.stream.device):
        graph = torch.cuda.CUDAGraph()
        # Other threads, such as NCCL's, may use the GPU meanwhile.
        with torch.cuda.graph(graph, place.pool, place.stream, capture_error_mode="thread_local"):
            function()
    return graph.replay


class _Replay(torch.autograd.Function):
    """The forward and backward passes of a recorded batch; the gradients of parameters are accumulated by the graph."""

    @staticmethod
    def forward(ctx: Any, recorded: _Recorded, anchor: Tensor) -> Tensor:
        ctx.recorded = recorded
        recorded.forward()
        return recorded.hidden.detach()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[None, None]:
        ctx.recorded.gradient.copy_(gradient)
        ctx.recorded.backward()
        return None, None
