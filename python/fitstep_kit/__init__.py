"""What examples, tests and benchmarks of fitstep share. No part of fitstep: not in its package.

    models/     networks in a few lines each
    measures/   what a training left and took: bits, bytes, feature maps

fitstep itself imports nothing of this. In the tree it lies beside fitstep: PYTHONPATH=python.
"""
