"""Read a parquet table from outside, if it fits into memory once it is unpacked."""

from __future__ import annotations

from io import BufferedReader
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from skillcomp.errors import FrameError

# Maximum size in memory of an unpacked table, in bytes, and maximum number of its rows. Analyses
# take about a minute and 2 GB for each million rows.
MAX_TABLE = 4 << 30
MAX_ROWS = 5_000_000
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 8, "FLOAT": 4, "DOUBLE": 8}
_TEXT = 8  # Bytes of a text besides its letters.


def read_parquet(stream: BufferedReader, path: Path) -> pd.DataFrame:
    """Read a parquet file; raise FrameError if it is too large once it is unpacked.

    A file stores equal values once, so a small file can hold a very large table.
    """
    with pq.ParquetFile(stream) as source:
        rows, columns = source.metadata.num_rows, source.metadata.num_columns
        if rows > MAX_ROWS:
            raise FrameError(
                f"{path}: {rows:,} rows; a table may have at most {MAX_ROWS:,}. Count by "
                "case first (docs/howto/million-rows.md)."
            )
        # the footer implies the size in memory, without the letters of texts
        needed = 0
        for number in range(source.metadata.num_row_groups):
            group = source.metadata.row_group(number)
            for column in map(group.column, range(columns)):
                size = max(column.num_values, group.num_rows)
                needed += size * _WIDTHS.get(column.physical_type, _TEXT)
                needed += column.total_uncompressed_size
        texts = [field.name for field in source.schema_arrow if _is_text(field.type)]
        if needed <= MAX_TABLE and texts:
            # the letters of all texts, counted without writing out equal texts
            stream.seek(0)
            size = 0
            packed = pq.ParquetFile(stream, read_dictionary=texts)
            for batch in packed.iter_batches(1_000_000, columns=texts):
                for column in batch.columns:
                    lengths = pc.binary_length(column.dictionary)
                    size += pc.sum(pc.cast(lengths, pa.int64()).take(column.indices)).as_py() or 0
                if size > MAX_TABLE:
                    break
            needed += size
        if needed > MAX_TABLE:
            raise FrameError(
                f"{path}: {rows:,} rows and {columns:,} columns take {needed / 2**30:,.1f} GiB in "
                f"memory; a table may take at most {MAX_TABLE >> 30} GiB. Keep the columns that "
                "you need, or count by case first (docs/howto/million-rows.md)."
            )
        stream.seek(0)
        return pd.read_parquet(stream)


def _is_text(kind: pa.DataType) -> bool:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    tests = (pa.types.is_string, pa.types.is_large_string, pa.types.is_binary)
    return any(test(kind) for test in tests)
