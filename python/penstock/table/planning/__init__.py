"""From bound statements to jobs: the planner, rewriting of whole plans, and the jobs of tables."""
