"""CUDA graphs of forward and backward, for batches whose shapes recur.

An update of a recurrent model launches thousands of short kernels, and the host takes several times as long to launch
them as the GPU to compute them. A CUDA graph is recorded once and then launched as a whole. Its shapes and addresses
are fixed, so batches are padded to few shapes (``batches.collate``), and gradients are accumulated in place. The output
layer is not part of a graph, because its number of words varies.

Letters: B sentences, S source words, T target words, H hidden.
"""

import logging
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from nmtkit.errors import UserError
from nmtkit.kernels import door
from nmtkit.models.base import Seq2Seq

log = logging.getLogger(__name__)

MOST = 128  # graphs
Shape = tuple[int, ...]


def graphs_for(device: torch.device) -> "Graphs | None":
    """The graphs of a training run on this device; None on a CPU, and if the environment switches them off."""
    return Graphs() if device.type == "cuda" and not door.switched_off(door.GRAPHS) else None


class Graphs:
    """The graphs of one model, by the shape of the batch.

    The first batch of a shape is computed without a graph, which also compiles kernels and allocates gradients; the
    second one is recorded. All gradients must then stay where they are: set them to zero, not to None.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most  # how many are recorded
        self._seen: set[Shape] = set()
        self._recorded: dict[Shape, _Recorded] = {}
        self._pool: Any = None  # the memory that all graphs share, because only one at a time is used

    def hidden(self, model: Seq2Seq, src: Tensor, mask: Tensor, tgt: Tensor) -> Tensor:
        """``model(src, mask, tgt)``: src (B, S), mask (B, S), tgt (B, T) -> (B, T, H).

        Valid until the next call; its gradient is propagated to the parameters at most once.
        """
        shape = (*src.shape, tgt.shape[1])
        recorded = self._recorded.get(shape)
        if recorded is None and shape in self._seen and len(self._recorded) < self._most and self._has_room(src.device):
            recorded = self._record(shape, model, src, mask, tgt)
        self._seen.add(shape)
        if recorded is None:
            return model(src, mask, tgt)  # type: ignore[no-any-return]
        for ours, theirs in zip(recorded.inputs, (src, mask, tgt), strict=True):
            ours.copy_(theirs)
        replayed: Tensor = _Replay.apply(recorded, torch.zeros((), device=src.device, requires_grad=True))
        return replayed

    def release(self) -> bool:
        """Free the memory of all graphs and record no more; returns whether there were any."""
        if not self._recorded:
            return False
        log.warning("out of memory beside %d CUDA graphs; going on without them, which is slower", len(self._recorded))
        self._recorded.clear()
        self._pool, self._most = None, 0
        return True

    def _stop(self) -> None:
        """Record no more graphs."""
        if self._most:
            log.warning("no memory for more CUDA graphs than %d, so other updates are slower", len(self._recorded))
        self._most = 0

    def _has_room(self, device: torch.device) -> bool:
        """Whether a quarter of the memory is free, for batches without a graph; if not, no more are recorded."""
        if room(device) < 0.25:
            self._stop()
        return self._most > 0

    def _record(self, shape: Shape, model: Seq2Seq, *inputs: Tensor) -> "_Recorded | None":
        """The graphs of a shape; None if they do not fit into memory. Raises UserError if recording fails otherwise."""
        try:
            self._pool = self._pool or pool()
            self._recorded[shape] = _Recorded(model, [x.clone() for x in inputs], self._pool)
        except torch.OutOfMemoryError:
            self._stop()
            return None
        except RuntimeError as error:  # after which PyTorch's random numbers do not work any more
            reason = str(error).splitlines()[0]
            remedy = f"start again with {door.SWITCH}={door.GRAPHS} in the environment, which is slower"
            raise UserError(f"recording a CUDA graph failed ({reason}); {remedy}") from None
        return self._recorded[shape]


class _Recorded:
    """Forward and backward of one shape. ``inputs``, ``hidden`` and ``gradient`` have fixed addresses."""

    def __init__(self, model: Seq2Seq, inputs: list[Tensor], pool: Any):
        self.inputs = inputs
        self.hidden: Tensor  # (B, T, H), with its autograd graph until backward is recorded

        def forward() -> None:
            with torch.enable_grad():
                self.hidden = model(*inputs)

        def backward() -> None:
            # Outside of autocast, as without a graph.
            with torch.autocast(self.gradient.device.type, enabled=False):
                self.hidden.backward(self.gradient)

        self.forward = record(forward, pool)
        self.gradient = torch.zeros_like(self.hidden)
        self.backward = record(backward, pool)
        self.hidden = self.hidden.detach()


def pool() -> Any:
    """Memory for graphs."""
    return torch.cuda.graph_pool_handle()


def room(device: torch.device) -> float:
    """The free fraction of a GPU's memory."""
    torch.cuda.empty_cache()  # recording does the same
    free, total = torch.cuda.mem_get_info(device)
    return free / total


def record(function: Callable[[], None], pool: Any) -> Callable[[], None]:
    """A function that launches all kernels that ``function`` launches now, with the same addresses."""
    graph = torch.cuda.CUDAGraph()
    # Other threads, such as NCCL's, may use the GPU meanwhile.
    with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):
        function()
    return graph.replay


class _Replay(torch.autograd.Function):
    """Forward and backward of a recorded batch; the gradients of parameters are accumulated by the graph."""

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
