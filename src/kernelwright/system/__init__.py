"""Operating system services: deadlines, Landlock, resources closed by a `with` block."""
