"""What plain PyTorch needs for one training step: the figure that every budget stands beside.

Counted at PyTorch's own allocator, independently of fitstep: bytes held before the step, plus the
most bytes requested and not yet freed during it.
"""

import os
from collections.abc import Callable, Iterator

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.profiler import ProfilerActivity, profile

os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # The profiler would announce itself.


def held_bytes(*objects: object) -> int:
    """Bytes of the distinct storages of modules (with gradients), optimizers and tensors."""
    storages = {
        tensor.untyped_storage().data_ptr(): tensor.untyped_storage().nbytes()
        for tensor in _tensors(objects)
    }
    return sum(storages.values())


def plain_peak_bytes(step: Callable[[], object], *held: object) -> int:
    """Runs `step` once and returns its peak, everything included.

    `held` is what lives before and after: models, optimizers, inputs. REQUIRES: the optimizer's
    state exists already (a steady step), and memory held before that the step gives back, such as
    gradients that it replaces, was given back by the caller.
    """
    before = held_bytes(*held)
    # Memory events come from the allocator; the operators' own events are not looked at.
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True, acc_events=True) as trace:
        step()
    result = trace.profiler.kineto_results if trace.profiler else None
    if result is None:
        raise RuntimeError("torch.profiler recorded nothing; is another profiler active?")
    requests = [event for event in result.events() if event.name() == "[memory]"]
    live = peak = 0
    for request in sorted(requests, key=lambda event: int(event.start_ns())):
        live += request.nbytes()  # Negative where memory is given back.
        peak = max(peak, live)
    return before + peak


def _tensors(value: object) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, nn.Module):
        for tensor in (*value.parameters(), *value.buffers()):
            yield tensor
            if tensor.grad is not None:
                yield tensor.grad
    elif isinstance(value, Optimizer):
        yield from _tensors(list(value.state.values()))
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
