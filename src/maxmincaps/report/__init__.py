"""Ways out: figures, tables and one page, from records alone.

The figures need matplotlib and the page jinja2, both of the optional part `report`.
"""

from maxmincaps.errors import import_extra

for module in ("matplotlib", "jinja2"):
    import_extra("report", module)
