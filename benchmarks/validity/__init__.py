"""Simulate the coverage and error rates of the intervals and tests on studies with known truth.

``python -m benchmarks.validity`` (``make validate``) simulates 4,000 studies in each of some 660
designs, scans all yes/no outcomes point by point, and sends 200 whole studies through the frames;
``--quick`` takes fewer. ``--choose`` prints the table from which the constant c of the bounded mean
is chosen, ``--page`` writes docs/intervals.md. Finished cells are kept in
``report/validity/cells`` and run again only if their code changes.
"""
