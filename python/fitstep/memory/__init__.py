"""The session: budgets, tiers, plans, the arena and the tensors that are at home in it.

session --> planning   budget -> question -> plans
        --> arena      memory and homes; what Python sees of it: seen_memory, addresses
"""
