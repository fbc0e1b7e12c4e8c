"""Steps: what `fitstep.compile` returns, its calls, programs, audits, checks and reports.

step --> call --> segments of known programs --> plans that run
          \\--> audits   the same by plain PyTorch
"""
