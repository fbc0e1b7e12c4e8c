"""Pictures of a report: a page for browsers and notebooks, a snapshot for PyTorch's memory_viz, and
a trace for Perfetto.

Picture: the rows of one simulated step --> charts --> page
                                        --> snapshot
"""
