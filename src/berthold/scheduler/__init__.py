"""What would be good: a snapshot in, ranked places and reasons out.

Pure: no I/O, no clock, and chance only as it is passed in; the same request, view and seed
give the same ranking. The scheduler only advises. The ledger grants or refuses, so a view
that lags costs a second try and never a promise.

All hosts are columns of numbers (`supply`): a filter narrows all of them at once, a weigher
weighs all of them at once. Single hosts are looked at only to say why none will do.
"""
