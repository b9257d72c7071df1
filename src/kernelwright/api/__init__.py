"""Entry points for Python, the command line and agents, in addition to `flow`: judge, compare, write a task."""
