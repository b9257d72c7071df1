// As it is.
