from .factorial import factorial as factorial
from .structure_score import score as score
from .structure_score import score_association as score_association
from .structure_score import score_by_document as score_by_document
