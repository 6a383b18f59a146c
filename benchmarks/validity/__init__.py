"""Coverage and error rates of the library's intervals and tests, over studies with known truth.

``python -m benchmarks.validity`` (``make validate``) simulates 4,000 studies in each of some 660
designs, scans all yes/no outcomes point by point, and sends 200 whole studies through the frames;
``--quick`` takes fewer. ``--choose`` prints the table that the constant c of the bounded mean is
read from, ``--page`` writes docs/intervals.md. Finished cells are kept under
``report/validity/cells`` and are not run again until their code changes.
"""
