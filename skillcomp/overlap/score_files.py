"""Shared n-grams of more texts than memory holds, through the parts of a parquet dataset."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import Any

import joblib
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from skillcomp.errors import FrameError, plural
from skillcomp.ngrams import Tokenizer
from skillcomp.overlap.score import Skills, score

_BATCH = 10_000  # texts that a worker holds at a time
_READ = {
    *("attempt_id", "skill", "case_id", "condition", "repeat", "answer"),
    *("passage_id", "document", "level", "made_up", "text", "question"),
}
Place = str | PathLike[str]


def score_files(
    parts: Place | Sequence[Place],
    *,
    skills: Skills,
    out: Place,
    cases: pd.DataFrame | None = None,
    ngram: Iterable[int] | int = range(3, 13),
    exclude_prompt: bool = True,
    boilerplate: str | Sequence[str] = (),
    tokenizer: Tokenizer | None = None,
    tokenizer_name: str | None = None,
) -> list[Path]:
    """Count the n-grams that texts in parquet files share with their skill, part by part.

    The rows are those of :func:`score` on all parts together, bit by bit. Use this function if the
    texts do not fit into memory, or to spread the work over processes or a cluster.

    Parameters
    ----------
    parts : path, or sequence of path
        Parquet files with the columns that :func:`score` reads, or a folder of such files, which
        are taken in the order of their names.
    skills, cases, ngram, exclude_prompt, boilerplate, tokenizer, tokenizer_name
        As in :func:`score`.
    out : path
        A new or empty folder for the result, one file per part; a cluster needs a folder that all
        its machines share. ``pandas.read_parquet(out)`` returns all rows.

    Returns
    -------
    list of pathlib.Path
        The files of the result, in the order of the parts.

    Raises
    ------
    FrameError
        If there are no parts, a part is not a parquet file, `out` is not empty, or as in
        :func:`score`; the message names the part.

    Notes
    -----
    A worker holds 10,000 texts at a time, so memory does not grow with their number. Parts are
    pieces of work for ``joblib.Parallel``, which uses one process by default. In
    ``with joblib.parallel_config(n_jobs=8):`` it uses eight; with ``backend="dask"`` and the client
    of a cluster, or with ray, it uses the workers of the cluster. Make at least as many parts as
    workers. An id that occurs twice in different batches is not noticed.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> texts = pd.DataFrame({"passage_id": ["p1", "p2"], "skill": "s", "level": "fresh",
    ...                       "text": ["Narrow the unknown values.", "Wait."]})
    >>> with TemporaryDirectory() as folder:
    ...     texts.to_parquet(f"{folder}/texts.parquet")
    ...     files = score_files(f"{folder}/texts.parquet", skills={"s": "Narrow unknown values."},
    ...                         out=f"{folder}/shared", ngram=3)
    ...     pd.read_parquet(files[0])[["passage_id", "n", "n_shared"]]
      passage_id  n  n_shared
    0         p1  3         1
    1         p2  3      <NA>
    """
    files, folder = _part_files(parts), Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise FrameError(f"overlap.score_files: out: {folder} is not empty; give a new folder.")
    lengths = ngram if isinstance(ngram, int) else list(ngram)
    how: dict[str, Any] = {"skills": skills, "cases": cases, "ngram": lengths}
    how |= {"exclude_prompt": exclude_prompt, "boilerplate": boilerplate}
    how |= {"tokenizer": tokenizer, "tokenizer_name": tokenizer_name}
    targets = [folder / f"part-{at:06d}.parquet" for at in range(len(files))]
    pairs = zip(files, targets, strict=True)
    joblib.Parallel()(joblib.delayed(_score_part)(part, to, how) for part, to in pairs)
    return targets


def _part_files(parts: Place | Sequence[Place]) -> list[Path]:
    if isinstance(parts, str | PathLike):
        path = Path(parts)
        files = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
    else:
        files = [Path(part) for part in parts]
    if not files:
        raise FrameError(f"overlap.score_files: parts: found {parts}, with no parquet file.")
    missing = [file for file in files if not file.is_file()]
    if missing:
        n = plural(len(missing), "file")
        raise FrameError(f"overlap.score_files: parts: there is no {missing[0]} ({n} missing).")
    return files


def _score_part(part: Path, target: Path, how: dict[str, Any]) -> None:
    """Score one part in batches and write its rows; the file appears when it is complete."""
    unfinished = target.with_suffix(".unfinished")
    try:
        with pq.ParquetFile(part) as source:
            columns = [name for name in source.schema_arrow.names if name in _READ]
            writer: pq.ParquetWriter | None = None
            batches = source.iter_batches(_BATCH, columns=columns)
            for batch in batches if source.metadata.num_rows else [source.read(columns=columns)]:
                rows = pa.Table.from_pandas(score(batch.to_pandas(), **how), preserve_index=False)
                writer = writer or pq.ParquetWriter(unfinished, rows.schema)
                writer.write_table(rows.cast(writer.schema))
            assert writer is not None
            writer.close()
    except (pa.ArrowException, FrameError) as error:
        raise FrameError(f"overlap.score_files: {part}: {error}") from error
    unfinished.replace(target)
