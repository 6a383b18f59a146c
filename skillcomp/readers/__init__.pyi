from .read_results import read_results as read_results
from .reader import Problems as Problems
from .reader import Reader as Reader
