"""Figures, tables and one self-contained page, from run folders alone.

The figures need matplotlib, the page jinja2 and the intervals scipy: all are in the optional part `report`.
"""

from maxmincaps.errors import import_extra

for module in ("matplotlib", "jinja2", "scipy"):
    import_extra("report", module)
