"""Words without a meaning of their own: frames, names, threads, settings of torch."""
