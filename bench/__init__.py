"""How fast it is: `make bench`, or `make bench PART=a` for one part.

A figure of one machine means little, so what the database does is told as a ratio to the
same server's own `pgbench` in the same run. Nothing here is asserted: a busy machine is no
bug. `tests/tidy/test_the_bench.py` only sees to it that every part still runs.

    a  claims per second, over pgbench            (claiming.py)
    b  creates and migrations of the all-in-one   (working.py)
    c  one decision of the scheduler              (deciding.py)
    d  resident memory                            (working.py)
"""
