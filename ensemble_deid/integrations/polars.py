"""`series.deid` for polars, from when this module is imported on."""

import polars

from ensemble_deid.integrations.series import SeriesAccessor

polars.api.register_series_namespace("deid")(SeriesAccessor)
