"""All that only a GPU can show, in eight minutes: `make gpu-check`."""
