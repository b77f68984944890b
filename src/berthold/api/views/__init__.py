"""From records to JSON: one file per noun, the fields of each microversion as data."""
