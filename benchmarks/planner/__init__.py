"""The planner by itself: layouts, plans beside their bounds, published traces. Runs no step."""
