//! Metrics of the daemon: their report, and a histogram of durations.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Report the daemon's metrics, for monitoring.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetMetrics {}

/// The daemon's metrics since it started.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GetMetricsReply {
    /// True if the metrics could be read
    pub success: bool,
    /// The metrics, sorted by name
    #[serde(default)]
    pub metrics: Vec<Metric>,
}

/// A metric, named by the conventions of Prometheus (<https://prometheus.io/docs/practices/naming/>).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Name, such as steplatch_runs_started_total
    pub name: String,
    /// Meaning of the metric
    pub help: String,
    /// Kind of metric
    pub kind: MetricKind,
    /// Samples. Those of a histogram are its buckets, sum and count, distinguished by their suffixes
    pub samples: Vec<Sample>,
}

/// A kind of metric (<https://prometheus.io/docs/concepts/metric_types/>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// The value only grows.
    Counter,
    /// The value goes up and down.
    Gauge,
    /// Counts of values up to each bound.
    Histogram,
}

/// A sample of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// Suffix of the sample's name: empty, _bucket, _sum or _count
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suffix: String,
    /// Labels, such as the name of a remote service
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The value
    pub value: f64,
}

impl Metric {
    /// Returns a gauge with one sample.
    #[must_use]
    pub fn gauge(name: &str, help: &str, value: f64) -> Self {
        let samples = vec![Sample::new("", BTreeMap::new(), value)];
        Self { name: name.to_owned(), help: help.to_owned(), kind: MetricKind::Gauge, samples }
    }
}

impl Sample {
    /// Returns a sample.
    #[must_use]
    pub fn new(suffix: &str, labels: BTreeMap<String, String>, value: f64) -> Self {
        Self { suffix: suffix.to_owned(), labels, value }
    }
}

/// Histogram of durations.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// Upper bounds of the buckets in seconds, in ascending order.
    bounds: &'static [f64],
    /// Number of durations in each bucket: above the bound before it, up to its own.
    buckets: Vec<u64>,
    count: u64,
    sum_seconds: f64,
}

impl Histogram {
    /// Returns an empty histogram. `bounds` are in seconds, in ascending order.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len()], count: 0, sum_seconds: 0.0 }
    }

    /// Records one duration.
    pub fn record_duration(&mut self, duration: Duration) {
        let seconds = duration.as_secs_f64();
        if let Some(bucket) = self.bounds.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.sum_seconds += seconds;
    }

    /// Returns the samples: the cumulative count for each bound, the sum in seconds, and the total count.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "counts stay below 2^53")]
    pub fn samples(&self, labels: &BTreeMap<String, String>) -> Vec<Sample> {
        let bucket_sample = |bound: String, count: u64| {
            let labels = labels.clone().into_iter().chain([("le".to_owned(), bound)]).collect();
            Sample::new("_bucket", labels, count as f64)
        };
        let mut cumulative_count = 0;
        let buckets = self.bounds.iter().zip(&self.buckets).map(|(bound, count)| {
            cumulative_count += count;
            bucket_sample(bound.to_string(), cumulative_count)
        });
        let mut samples: Vec<Sample> = buckets.collect();
        samples.push(bucket_sample("+Inf".to_owned(), self.count));
        samples.push(Sample::new("_sum", labels.clone(), self.sum_seconds));
        samples.push(Sample::new("_count", labels.clone(), self.count as f64));
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_counts_durations_up_to_its_bound() {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for seconds in [0.25, 0.5, 0.75, 8.0] {
            histogram.record_duration(Duration::from_secs_f64(seconds));
        }
        let labels = [("of".to_owned(), "x".to_owned())].into();
        let samples: Vec<_> = histogram
            .samples(&labels)
            .into_iter()
            .map(|sample| (sample.suffix, sample.labels.get("le").cloned(), sample.value))
            .collect();
        let bucket = |bound: &str, count| ("_bucket".to_owned(), Some(bound.to_owned()), count);
        let plain = |suffix: &str, value| (suffix.to_owned(), None, value);
        assert_eq!(
            samples,
            [bucket("0.5", 2.0), bucket("1", 3.0), bucket("+Inf", 4.0), plain("_sum", 9.5), plain("_count", 4.0)]
        );
    }
}
