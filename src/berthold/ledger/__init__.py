"""What is true.

The tables that promises rest on (`schema`), the transactions that change them (one module
per table), and the proof (`audit`). The ledger imports nothing above it and decides
nothing: it grants or refuses.
"""
