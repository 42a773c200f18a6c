"""WebShop: an independent implementation of its text environment (paper, appendix "Benchmarks")."""
