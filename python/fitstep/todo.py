"""What to write instead of operators that cannot be part of a program."""

from __future__ import annotations

_TODO = {
    "talks to other processes": "train with one process: collectives, DistributedDataParallel and "
    "FSDP are not supported yet",
    "changes which memory a tensor uses": "make a new tensor instead of set_() or resize_()",
    "gives other memory to a tensor that the arena has": "share or resize a copy: "
    "tensor.detach().clone()",
    "makes a tensor whose size depends on values of the step": "keep the shape fixed: multiply by "
    "the mask, or use torch.where",
    "reads a gradient that an earlier step has used": "pass keep_grads=True to compile, or clear "
    "the gradients in the step, as with optimizer.zero_grad()",
    "changes the size of the tensor that it writes into (out=)": "give it a tensor of the right "
    "size, or leave out=",
    "needs the bytes of a tensor": "return the tensor and convert it after the step",
}


def todo_for(why: str) -> str:
    """The line to write instead."""
    return _TODO.get(why, "use another operator")
