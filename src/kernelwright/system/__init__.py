"""What the system underneath gives: deadlines, Landlock, resources closed by a `with` block, dispatch modes."""
