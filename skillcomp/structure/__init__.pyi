from .experiment import factorial as factorial
from .scores import against as against
from .scores import documents as documents
from .scores import score as score
