//! Medians, quartiles and other quantiles.

/// The middle half of some measurements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Summary {
    pub(crate) lower_quartile: f64,
    pub(crate) median: f64,
    pub(crate) upper_quartile: f64,
}

impl Summary {
    /// `NaN` throughout if there is nothing.
    pub(crate) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        Self {
            lower_quartile: quantile(&sorted, 0.25),
            median: quantile(&sorted, 0.5),
            upper_quartile: quantile(&sorted, 0.75),
        }
    }
}

/// The quantile at `part` (0 to 1) of sorted values, between two neighbours in proportion; `NaN` if there are none.
pub(crate) fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len().saturating_sub(1)) as f64;
    let at = |place: f64| sorted.get(place as usize).copied().unwrap_or(f64::NAN);
    at(place.floor()) + (at(place.ceil()) - at(place.floor())) * place.fract()
}
