"""A storm: every operation there is, at once, on a cloud in which everything fails.

    hosts        agents and machines that fail
    cloud        a world whose conductors and agents work at the same time, by transactions
    sight        what somebody sees who thinks about what to ask for
    operations   what users and operators may ask for
    faults       what goes wrong
    checks       what must be true at every instant, and in the calm afterwards
    runs         one storm after another, from a seed; the shortest history of one that broke a promise

`python -m berthold.lab.storm` lets it blow for as long as one likes (`make storm`). In
`tests/storm` Hypothesis steers the same storms.
"""
