"""What the services use of the operating system: deadlines, Landlock, resources that are closed."""
