"""The cells of layers/recurrent.py over a sequence, forward and backward, compared with torch's and a plain loop.

    python recipes/benchmarks/recurrences.py
    python recipes/benchmarks/recurrences.py --width 1024 --rows 64 --steps 50 --dtype bfloat16
    python recipes/benchmarks/recurrences.py --device cuda --dtype bfloat16

All transform their inputs (rows x width at each step) and compute gradients of inputs and weights. torch's GRU resets
after the product and its LSTM has no peepholes; it has no LAU. The share is that of the ceiling, the measured rate of
one product (steps * rows, width) x (width, 3 * width). Rounds are interleaved, so that the load of the machine is the
same for all. With bfloat16, ours multiply float32 weights by autocast, as in training, and torch's have weights in
bfloat16. On a GPU, torch's cells are cuDNN's, and all are replayed as CUDA graphs, also as in training.
"""

import argparse
import statistics
from collections.abc import Callable
from functools import partial

import torch
from shared import clock_of, print_table, product_rate, seconds
from torch import Tensor, nn

from nmtkit.ops import gated, gru, lstm
from nmtkit.ops.loop import scan
from nmtkit.ops.matrix import Matrix

Layer = Callable[[Tensor], Tensor]
Ways = dict[str, tuple[Layer, list[Tensor]]]  # implementations with their weights


def leaf(*shape: int, device: torch.device, dtype: torch.dtype = torch.float32) -> Tensor:
    return (0.05 * torch.randn(shape)).to(device, dtype).requires_grad_()


def layers(width: int, rows: int, dtype: torch.dtype, device: torch.device) -> dict[str, tuple[int, Ways]]:
    """For each recurrence, the number of square matrices in a step, and its implementations."""
    zero = torch.zeros(rows, width, device=device)
    w3, w4, w5 = (leaf(width, n * width, device=device) for n in (3, 4, 5))
    u, u2, u4 = (leaf(width, n * width, device=device) for n in (1, 2, 4))
    bias, peepholes = (leaf(*shape, device=device) for shape in ((4 * width,), (3, width)))

    def lau_step(x: Tensor, h: Tensor, u4: Matrix) -> Tensor:
        return gated.lau(x, h, u4, None, *bias.view(4, -1).split([3, 1]), None)

    def lstm_step(x: Tensor, h: Tensor, s: Tensor, u4: Matrix) -> tuple[Tensor, Tensor]:
        return lstm.step(x, h, s, u4, peepholes)

    def plain_gru(x: Tensor) -> Tensor:
        h, states = zero, []
        for step in x @ w3:
            h = gru.step(step, h, u2, u)
            states.append(h)
        return torch.stack(states)

    def plain_lau(x: Tensor) -> Tensor:
        h, states = zero, []
        for step in x @ w5:
            h = lau_step(step, h, u4)
            states.append(h)
        return torch.stack(states)

    def plain_lstm(x: Tensor) -> Tensor:
        h, s, states = zero, zero, []
        for step in x @ w4:
            h, s = lstm_step(step, h, s, u4)
            states.append(h)
        return torch.stack(states)

    torch_gru, torch_lstm = (kind(width, width).to(device, dtype) for kind in (nn.GRU, nn.LSTM))
    found: dict[str, tuple[int, Ways]] = {
        "GRU": (6, {
            "nmtkit": (lambda x: scan(gru.step, x @ w3, [zero], None, False, [u2, u]), [w3, u2, u]),
            "torch": (lambda x: torch_gru(x)[0], list(torch_gru.parameters())),
            "plain": (plain_gru, [w3, u2, u]),
        }),
        "LAU": (9, {
            "nmtkit": (lambda x: scan(lau_step, x @ w5, [zero], None, False, [u4]), [w5, u4, bias]),
            "plain": (plain_lau, [w5, u4, bias]),
        }),
        "LSTM": (8, {
            "nmtkit": (lambda x: scan(lstm_step, x @ w4, [zero, zero], None, False, [u4]), [w4, u4, peepholes]),
            "torch": (lambda x: torch_lstm(x)[0], list(torch_lstm.parameters())),
            "plain": (plain_lstm, [w4, u4, peepholes]),
        }),
    }  # fmt: skip
    return found


def compare(ways: Ways, x: Tensor, rounds: int) -> dict[str, list[float]]:
    """Seconds of each implementation, after a warm-up round."""
    times: dict[str, list[float]] = {way: [] for way in ways}
    prepared = {way: replayed(partial(step, layer, x, weights), x.device) for way, (layer, weights) in ways.items()}
    for _ in range(1 + rounds):
        for way, run in prepared.items():
            times[way] += seconds(run, 1, clock_of(x.device))
    return {way: found[1:] for way, found in times.items()}


def step(layer: Layer, x: Tensor, weights: list[Tensor]) -> None:
    with torch.autocast(x.device.type, torch.bfloat16, enabled=x.dtype == torch.bfloat16):
        outputs = layer(x)
    torch.autograd.grad(outputs.sum(), [x, *weights])


def replayed(run: Callable[[], None], device: torch.device) -> Callable[[], None]:
    """The same work, on a GPU as the replay of a CUDA graph."""
    if device.type == "cpu":
        return run
    with torch.cuda.stream(torch.cuda.Stream(device)):  # kernels are compiled outside the graph
        run()
        run()
    torch.cuda.synchronize(device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    return graph.replay


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--rows", type=int, nargs="+", default=[64, 80])
    parser.add_argument("--steps", type=int, default=25)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32")
    parser.add_argument("--device", type=torch.device, default="cpu", help="cpu or cuda [cpu]")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    dtype = getattr(torch, args.dtype)
    place = (
        f"{torch.get_num_threads()} threads" if args.device.type == "cpu" else torch.cuda.get_device_name(args.device)
    )
    others = ["torch", "plain"]
    print(f"{args.steps} steps, {place}, torch {torch.__version__}, {args.dtype}\n")
    table = []
    for width in args.width:
        for rows in args.rows:
            x = leaf(args.steps, rows, width, dtype=dtype, device=args.device)
            rate = product_rate(args.steps * rows, width, 3 * width, dtype, args.device)
            for name, (matrices, ways) in layers(width, rows, dtype, args.device).items():
                ms = {way: 1e3 * statistics.median(times) for way, times in compare(ways, x, args.rounds).items()}
                ceiling = 1e3 * 6 * matrices * args.steps * rows * width**2 / rate
                ratios = [f"{ms[way] / ms['nmtkit']:.2f}" if way in ms else "" for way in others]
                table.append([name, str(width), str(rows), f"{ms['nmtkit']:.1f}", *ratios,
                              f"{rate / 1e9:.0f}", f"{ceiling / ms['nmtkit']:.0%}",
                              f"{ceiling / ms['torch']:.0%}" if "torch" in ms else ""])  # fmt: skip
    print_table(["recurrence", "width", "rows", "nmtkit, ms", *(f"{way} / nmtkit" for way in others),
                 "GFLOP/s of products", "share, nmtkit", "share, torch"], table)  # fmt: skip


if __name__ == "__main__":
    main()
