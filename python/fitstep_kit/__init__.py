"""What examples, tests and benchmarks of fitstep share. No part of fitstep: not in its package.

    models/     networks in a few lines each
    subjects/   small trainings: models with batches, losses and optimizers, trained both ways
    programs/   programs to plan for: captured, converted, made
    measures/   what a training left and took: bits, bytes, feature maps, files

fitstep itself imports nothing of this. In the tree it lies beside fitstep: PYTHONPATH=python.
"""
