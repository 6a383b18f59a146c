"""Coverage and error rates of the library's intervals and tests, over studies with known truth.

``python -m benchmarks.validity`` (``make validate``) simulates 4,000 studies in each of some 340
designs, and 200 whole studies through the frames; ``--quick`` takes fewer. Finished cells are kept
under ``report/validity/cells`` and are not run again until their code changes.
"""
