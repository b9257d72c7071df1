"""What Python callers, the command line and agents call beside `flow`: judge, compare, write a task."""
