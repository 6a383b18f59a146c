from .factorial import factorial as factorial
from .structure_score import against as against
from .structure_score import documents as documents
from .structure_score import score as score
