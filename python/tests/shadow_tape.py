"""A small recorder for the tests of fitstep.shadow, without the compiled one.

Records ops as the real recorder and its lowering leave them: views and reads of numbers are
dropped, list ops are split into ops on lists of one tensor, storages have numbers of their own and
are held only weakly. Its reading of a call is its own: it shares no code with fitstep.shadow.
"""

from __future__ import annotations

import torch
from fitstep.shadow import TapeOp
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

VIEWS = ("aten::lift_fresh", "aten::detach", "aten::view", "aten::t", "aten::transpose")
SILENT = (*VIEWS, "aten::_local_scalar_dense")


class PlainTape(TorchDispatchMode):
    """`ops` and `literals` (storage -> bytes) are complete once the mode is off."""

    def __init__(self):
        super().__init__()
        self.ops = []
        self.literals = {}
        self._numbers = {}
        self._weak = []

    def storage_of(self, tensor):
        weak = StorageWeakRef(tensor.untyped_storage())
        if weak.cdata not in self._numbers:
            self._numbers[weak.cdata] = len(self._numbers)
            self._weak.append(weak)  # Keeps the address from being used again.
        return self._numbers[weak.cdata]

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = func._schema.name
        content = None
        if name == "aten::lift_fresh" and not isinstance(args[0], FakeTensor):
            with _disable_current_modes():
                content = args[0].clone().reshape(-1).view(torch.uint8).numpy().tobytes()
        out = func(*args, **kwargs)
        if isinstance(out, FakeTensor) and out.ndim == 0 and not types:
            with _disable_current_modes():
                out.constant = func(*args, **kwargs)  # zeros(()), ones(()), a literal.
        if content is not None:
            self.literals[self.storage_of(out)] = content
        if name in SILENT or name.startswith(("profiler::", "prim::")):
            return out
        full = name + ("." + func._overloadname if func._overloadname != "default" else "")
        values = []
        for i, argument in enumerate(func._schema.arguments):
            default = argument.default_value
            values.append(args[i] if i < len(args) else kwargs.get(argument.name, default))
        outs = list(out) if isinstance(out, (list, tuple)) else [out]
        is_list_op = name.startswith(("aten::_foreach_", "aten::_fused_"))
        count = len(values[0]) if is_list_op else 1
        for k in range(count):
            one = [_entry(v, k, count) for v in values] if is_list_op else values
            outputs = [outs[k]] if is_list_op and len(outs) == count else outs
            self._append(full, one, [t for t in outputs if isinstance(t, torch.Tensor)])
        return out

    def _append(self, name, values, outputs):
        numbers, inputs = [], []
        for value in values:
            for entry in value if isinstance(value, (list, tuple)) else [value]:
                if isinstance(entry, torch.Tensor):
                    inputs.append(self.storage_of(entry))
                elif isinstance(entry, (bool, int, float)):
                    numbers.append(entry)
                elif isinstance(entry, (torch.dtype, torch.layout, torch.memory_format)):
                    numbers.append(-1)  # As an enumerator of C++ would appear.
        outputs = tuple(self.storage_of(t) for t in outputs)
        self.ops.append(TapeOp(len(self.ops), name, tuple(numbers), tuple(inputs), outputs))


def _entry(value, k, count):
    """Entry `k` of a list with one entry per tensor, as a list of one."""
    if isinstance(value, (list, tuple)) and len(value) == count:
        return [value[k]]
    return value


def fake_twin(optimizer, mode: FakeTensorMode):
    """The optimizer with fakes for its tensors. Those of 0-dim state know their numbers."""

    def fake(tensor):
        made = mode.from_tensor(tensor)
        if tensor.ndim == 0 and not isinstance(tensor, torch.nn.Parameter):
            made.constant = tensor.detach().clone()
        return made

    twin = object.__new__(type(optimizer))
    twin.__dict__.update(optimizer.__dict__)
    twin.__dict__.pop("step", None)
    twin.param_groups, twin.state = [], type(optimizer.state)(dict)
    for group in optimizer.param_groups:
        twin.param_groups.append({**group, "params": [fake(p) for p in group["params"]]})
        for real, made in zip(group["params"], twin.param_groups[-1]["params"], strict=True):
            made.grad = None if real.grad is None else fake(real.grad)
            if real in optimizer.state:
                twin.state[made] = {
                    key: fake(value) if isinstance(value, torch.Tensor) else value
                    for key, value in optimizer.state[real].items()
                }
    return twin
