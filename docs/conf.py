"""How Sphinx builds the documentation: ``python -m sphinx -W docs docs/_build``."""

project = "OneModel"
copyright = "the OneModel contributors"
extensions = ["myst_parser"]
exclude_patterns = ["_build", "settled"]
html_theme = "furo"
html_title = "OneModel"
