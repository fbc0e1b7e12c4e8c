"""Single operators: ways that plans do not take, and what they would be worth."""
