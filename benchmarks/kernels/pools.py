"""Max pools with codes beside PyTorch's with indices, forward and backward.

    python benchmarks/run.py pools [--small]

Method. Shapes of VGG, ResNet, GoogLeNet and small nets, both memory formats. Both ways take turns,
and turns in going first; the time of ours over PyTorch's, medians over the rounds. Elements, codes
and gradients are compared bit for bit before.
"""

import torch
from torch import Tensor

from benchmarks.kernels.untaken import ratio
from benchmarks.output import Row, arguments, save, show

ops = torch.ops.fitstep
aten = torch.ops.aten
FORMATS = {"planes": torch.contiguous_format, "channels last": torch.channels_last}
# Images, channels, side, kernel, stride, padding.
SHAPES = (
    (16, 64, 224, 2, 2, 0), (16, 128, 112, 2, 2, 0), (16, 512, 28, 2, 2, 0), (16, 64, 112, 3, 2, 1),
    (8, 192, 28, 3, 1, 1), (64, 16, 24, 2, 2, 0), (64, 3, 64, 2, 2, 0),
)  # fmt: skip


def same_bits(a: Tensor, b: Tensor) -> bool:
    return a.stride() == b.stride() and torch.equal(a.view(torch.int32), b.view(torch.int32))


def measure(shape: tuple[int, ...], name: str, rounds: int) -> Row:
    """One pool."""
    count, channels, side, kernel, stride, padding = shape
    x = torch.randn(count, channels, side, side).contiguous(memory_format=FORMATS[name])
    window = [kernel] * 2, [stride] * 2, [padding] * 2, [1, 1], False
    is_last = name == "channels last"
    y, indices = aten.max_pool2d_with_indices(x, *window)
    ours, codes = ops.max_pool2d_with_codes(x, *window, is_last)
    gradient = torch.randn_like(y)
    back = aten.max_pool2d_with_indices_backward, ops.max_pool2d_backward_packed
    gradients = [
        way(gradient, x, *window, of) for way, of in zip(back, (indices, codes), strict=True)
    ]
    assert same_bits(y, ours), "other elements"
    assert same_bits(*gradients), "other gradients"
    forward = ratio(
        lambda: aten.max_pool2d_with_indices(x, *window),
        lambda: ops.max_pool2d_with_codes(x, *window, is_last),
        rounds,
    )
    backward = ratio(
        lambda: back[0](gradient, x, *window, indices),
        lambda: back[1](gradient, x, *window, codes),
        rounds,
    )
    case = f"{count} x {channels} x {side} x {side}, kernel {kernel}, stride {stride}, {name}"
    return {"case": case, "forward": forward, "backward": backward}


def main() -> None:
    """Prints and saves the table."""
    args = arguments(__doc__).parse_args()
    torch.manual_seed(0)
    shapes = SHAPES[-2:] if args.small else SHAPES
    rows = [measure(s, name, 1 if args.small else 25) for name in FORMATS for s in shapes]
    title = "time over PyTorch's, of equal bits"
    show(title, [{k: v if k == "case" else f"{v:.2f}" for k, v in row.items()} for row in rows])
    save("pools", {"rows": rows}, args.small)


if __name__ == "__main__":
    main()
