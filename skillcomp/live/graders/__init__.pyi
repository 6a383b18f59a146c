from .comprehension import ComprehensionGrader as ComprehensionGrader
from .comprehension import GraderWarning as GraderWarning
from .comprehension import Grading as Grading
from .comprehension import LiveGrader as LiveGrader
from .gold import GoldAnswer as GoldAnswer
from .pairwise import PairwiseGrader as PairwiseGrader
from .replay import ReplayGrader as ReplayGrader
from .replay import read_reply as read_reply
