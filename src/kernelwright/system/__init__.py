"""What the system underneath gives: deadlines, waits, Landlock, resources of `with` blocks, dispatch modes."""
