"""What a review refuses."""

from ensemble_deid.errors import DeidError


class ReviewError(DeidError):
    """A store that cannot be used, or a decision that does not fit the state of the review; quotes no note."""
