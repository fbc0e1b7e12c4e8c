"""Following: the user's function runs, its operators are recorded, and no kernel runs.

maker --> recordings --> following --> patches   what Python asks of tensors
            |                 \\--> muted, entered   what may not happen, what is entered
            \\--> undo   puts everything back
"""
