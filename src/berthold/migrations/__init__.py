"""The history of the schema, one revision per file in `versions`.

Only forward: who must go back restores the backup that was made before the upgrade.
"""
