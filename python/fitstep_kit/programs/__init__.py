"""Programs to plan for: captured from trainings, converted from traces, made in any size."""
