"""Simulate the coverage of the intervals on studies with known truth.

``python -m benchmarks.validity`` (``make validate``) simulates 4,000 studies in each of some 850
designs, scans all outcomes of few cases exactly, computes the available power of claims about
skills in general, checks the analyses with an interval of their own, and sends 200 whole studies
through the frames. ``--quick`` takes fewer.
``--page`` writes docs/intervals.md. Finished cells are kept in ``report/validity/cells`` and run
again only if their code changes.
"""
