"""Tiny models of every family of five libraries, trained by fitstep and by plain PyTorch."""
