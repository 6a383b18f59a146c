from .effects import Counts as Counts
from .effects import counts as counts
from .graders import Grader as Grader
from .graders import gold_stream as gold_stream
from .studies import Study as Study
from .studies import grade as grade
from .studies import study as study
from .text import passages as passages
