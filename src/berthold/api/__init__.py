"""The OpenStack compute API: it accepts wishes and shows what is true.

`routes.py` is the whole surface, one table. A request passes the middleware of `app.py`,
`dispatch.py` finds its row, checks the policy rule once and the body against its shape, and
calls one function of the file that is named after its noun. Handlers raise the kinds of
`berthold.errors`; `problems.py` says what HTTP makes of them. `views/` turns records into
JSON, with the fields of each microversion as data; `schemas/` says what bodies look like.
"""
