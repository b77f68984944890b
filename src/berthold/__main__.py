"""`python -m berthold` is the `berthold` command."""

from berthold.cli import main

main()
