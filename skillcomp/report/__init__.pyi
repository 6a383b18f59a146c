from .answer import Answer as Answer
from .answer import answer as answer
from .findings import findings as findings
from .notebooks import NotebookError as NotebookError
from .notebooks import execute as execute
from .notebooks import find_notebooks as find_notebooks
from .notebooks import write_notebooks as write_notebooks
from .page import build as build
