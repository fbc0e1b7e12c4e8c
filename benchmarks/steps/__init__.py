"""Memory and time of whole training steps, beside plain PyTorch and what else saves memory."""
