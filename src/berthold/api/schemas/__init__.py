"""What request bodies look like: one file per noun, each shape in its newest form.

A field that not every microversion has is listed beside the shape, in its `Body`.
"""
