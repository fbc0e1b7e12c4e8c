"""What a user can write instead of an operator that cannot be part of a program."""

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
    "changes the size of the tensor that it writes into (out=)": "pass out= a tensor of the right "
    "size, or leave out= away",
    "needs the bytes of a tensor": "return the tensor and convert it after the step",
    "makes a tensor of another shape or other strides than recorded": "call .contiguous() on what "
    "the operator reads, or use another operator",
    "asks without end for values that are not computed yet": "end the loop after a number of "
    "rounds that does not depend on tensors, or call it after the step",
    "has no fake kernel": "register one with torch.library.register_fake, or use another operator",
}


def todo_for(why: str) -> str:
    """The last line of the CaptureError; `why` is the reason that the follower gave."""
    return _TODO[why]
