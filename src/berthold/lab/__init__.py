"""The race lab: a cloud in one object, every order of what may happen in it, and an independent judge."""
