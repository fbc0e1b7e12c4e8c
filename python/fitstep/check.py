"""step.check(): trains a copy with plain PyTorch beside a compiled copy and compares all bits."""
