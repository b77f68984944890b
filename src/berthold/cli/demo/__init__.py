"""`berthold demo`: the bug report's test plan, on a cloud of its own, with the real client.

cloud.py    the cloud under the demo, a process of its own, and what is seen of it
shell.py    commands that a person could type, shown and run
screen.py   what is printed beside them
acts.py     the test plan
race.py     several moves at the same moment, and whether it was one
verdict.py  whether a promise was broken
"""

from berthold.cli.demo.command import demo

__all__ = ["demo"]
