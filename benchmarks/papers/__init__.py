"""The study of vDNN, vDNN++, TF-swap and Layrub: their programs, figures and ours beside."""
