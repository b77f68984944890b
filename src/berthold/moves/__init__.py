"""How it comes true: moves, each a literal list that reads from top to bottom.

`playbook` says what a list is made of, a file per move holds the lists, `runner` works on
them, `placing` finds a host that the ledger grants, `status` derives what users see.
"""
