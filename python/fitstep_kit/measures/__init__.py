"""What a training left and took: bits of its state, bytes of its memory, its feature maps."""
