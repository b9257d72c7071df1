"""The search of one run, from its options to its result and package: where the parts are assembled."""
