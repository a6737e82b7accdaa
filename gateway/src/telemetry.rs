//! What the node says about itself: log lines on standard error, metrics on `/metrics`.
//!
//! Every log line passes the [`redact`]or after it was formatted, panics included, so that no secret gets out through
//! a field that nobody thought of. Data never goes to standard error, and log lines never to standard output.

pub mod redact;

use crate::config::{Format, Log};
use crate::metric;
use metrics_exporter_prometheus::{
    BuildError, Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use redact::Redactor;
use std::io::{self, IsTerminal, Write};
use tracing::Subscriber;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

/// The log or the metrics could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum TelemetryError {
    /// The configuration's check lets none of these through.
    #[error("log.level {0:?} is not a filter")]
    Level(String),
    /// It was set up before in this process.
    #[error("the log is already set up")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
    /// It was set up before in this process, or a bucket is wrong.
    #[error("the metrics could not be set up")]
    Metrics(#[from] BuildError),
}

/// Whether lines may have colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Colour {
    /// A person reads them.
    On,
    /// A file or a program does.
    Off,
}

/// Sends the log of the whole process to standard error, and panics with it.
///
/// # Errors
///
/// [`TelemetryError`] when the filter is wrong, or a log was set up before.
pub fn start(log: &Log, redactor: &Redactor, wanted: Colour) -> Result<(), TelemetryError> {
    let colour = if io::stderr().is_terminal() { wanted } else { Colour::Off };
    subscriber(log, redactor, colour, io::stderr)?.try_init().map_err(TelemetryError::Twice)?;
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let message = panic.payload_as_str().unwrap_or("(no text)");
        tracing::error!(place, message, "panic");
    }));
    Ok(())
}

/// What `start` installs, with its lines going to `out`.
fn subscriber<W>(
    log: &Log,
    redactor: &Redactor,
    colour: Colour,
    out: W,
) -> Result<Box<dyn Subscriber + Send + Sync>, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::builder().with_default_directive(LevelFilter::INFO.into());
    let filter = filter.parse(&log.level).map_err(|_| TelemetryError::Level(log.level.clone()))?;
    let writer = Clean { out, redactor: redactor.clone() };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(writer);
    Ok(match log.format {
        Format::Text => Box::new(builder.with_ansi(colour == Colour::On).finish()),
        Format::Json => Box::new(builder.json().flatten_event(true).finish()),
    })
}

/// A writer that cleans each line on its way.
struct Clean<W> {
    out: W,
    redactor: Redactor,
}

impl<'a, W: MakeWriter<'a>> MakeWriter<'a> for Clean<W> {
    type Writer = CleanLine<W::Writer>;

    fn make_writer(&'a self) -> Self::Writer {
        CleanLine { out: self.out.make_writer(), redactor: self.redactor.clone() }
    }
}

/// One line on its way. The formatter hands a whole line to one call, so no secret is cut in two.
struct CleanLine<W> {
    out: W,
    redactor: Redactor,
}

impl<W: Write> Write for CleanLine<W> {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(line);
        self.out.write_all(self.redactor.clean(&text).as_bytes())?;
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The metrics of the process.
#[derive(Clone)]
pub struct Metrics {
    handle: PrometheusHandle,
}

impl Metrics {
    /// Collects the metrics of the whole process from now on.
    ///
    /// # Errors
    ///
    /// [`TelemetryError`] when that was done before.
    pub fn install() -> Result<Self, TelemetryError> {
        let recorder = recorder()?;
        let handle = recorder.handle();
        metrics::set_global_recorder(recorder).map_err(BuildError::from)?;
        metric::describe();
        store::metric::describe();
        actors::metric::describe();
        projections::metric::describe();
        Ok(Self { handle })
    }

    /// Everything in Prometheus' text format.
    #[must_use]
    pub fn render(&self) -> String {
        self.handle.render()
    }

    /// Folds what histograms have gathered. Call it every few seconds, or they grow until somebody renders them.
    pub fn upkeep(&self) {
        self.handle.run_upkeep();
    }
}

impl std::fmt::Debug for Metrics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Metrics")
    }
}

fn recorder() -> Result<PrometheusRecorder, BuildError> {
    let seconds = Matcher::Suffix("_seconds".to_owned());
    let builder = PrometheusBuilder::new().set_buckets_for_metric(seconds, &metric::SECONDS)?;
    Ok(builder.build_recorder())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Secret;
    use std::sync::{Arc, Mutex};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// What is logged by `act` under a filter, when `planted` is known.
    fn logged(format: Format, level: &str, planted: &str, act: impl FnOnce()) -> String {
        let lines = Lines::default();
        let log = Log { format, level: level.to_owned() };
        let redactor = Redactor::default();
        redactor.learn(&Secret::new(planted));
        let out = lines.clone();
        let subscriber = subscriber(&log, &redactor, Colour::Off, move || out.clone()).unwrap();
        tracing::subscriber::with_default(subscriber, act);
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn no_planted_key_gets_into_a_line() {
        const KNOWN: &str = "0123-planted-\"quoted\"";
        #[derive(Debug)]
        struct Holder {
            #[expect(dead_code, reason = "it is there to be printed")]
            key: &'static str,
        }
        for format in [Format::Text, Format::Json] {
            let text = logged(format, "trace", KNOWN, || {
                let span = tracing::info_span!("call", key = KNOWN);
                let _entered = span.enter();
                tracing::info!("plain {KNOWN}");
                tracing::warn!(field = KNOWN, debug = ?Holder { key: KNOWN }, "fields");
                tracing::error!(error = %io::Error::other(KNOWN), "an error");
                tracing::info!(
                    "sk-planted-0123456789 Bearer planted-0123456789 piton_key_planted_0123456789"
                );
            });
            assert_eq!(text.lines().count(), 4, "{text}");
            assert!(!text.contains("planted"), "{text}");
            assert!(text.matches("[redacted]").count() >= 8, "{text}");
        }
    }

    #[test]
    fn a_filter_lets_through_what_it_names() {
        let act = || {
            tracing::debug!(target: "actors", "kept");
            tracing::debug!(target: "store", "dropped");
        };
        let text = logged(Format::Json, "info,actors=debug", "unused", act);
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(
            (line["message"].as_str(), line["level"].as_str()),
            (Some("kept"), Some("DEBUG"))
        );
    }

    #[test]
    fn a_duration_is_a_histogram_with_buckets_and_a_count_a_counter() {
        let recorder = recorder().unwrap();
        let handle = recorder.handle();
        metrics::with_local_recorder(&recorder, || {
            metric::describe();
            metric::answered("GET", "/v1/runs", 200, std::time::Duration::from_millis(20));
        });
        let text = Metrics { handle }.render();
        let labels = "method=\"GET\",route=\"/v1/runs\",status=\"200\"";
        assert!(text.contains(&format!("piton_http_requests_total{{{labels}}} 1")), "{text}");
        assert!(text.contains("piton_http_request_seconds_bucket{method=\"GET\",route=\"/v1/runs\",le=\"0.025\"} 1"), "{text}");
        assert!(text.contains("# HELP piton_http_requests_total"), "{text}");
    }
}
