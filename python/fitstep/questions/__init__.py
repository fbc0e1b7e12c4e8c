"""Questions about a step that train nothing: what budgets cost, whether one fits, which batch.

Making --Asked--> programs, measured --planner--> Curve, Fits, LargestBatch
"""
