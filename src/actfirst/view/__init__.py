"""`actfirst view`: a local web application that shows run folders, and the same pages as static files.

The server hands out lines of run folders and short rows of them; tables, curves and comparisons are made in the
browser (`viewer/` in the repository; its built files are in `static/`).
"""
