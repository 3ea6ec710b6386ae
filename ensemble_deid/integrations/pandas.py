"""`series.deid` for pandas, from when this module is imported on."""

import pandas

from ensemble_deid.integrations.series import SeriesAccessor

pandas.api.extensions.register_series_accessor("deid")(SeriesAccessor)
