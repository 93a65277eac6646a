"""Plan and execute: the model makes a plan of steps, each step is a run of its own, the plan changes where needed."""
