//! A request that is no model call, to the issuer of tokens: one body there, one small body back.

use super::broken::{self, Stage};
use super::leaving::{Leaving, Refused};
use super::{Client, Unanswered};
use crate::class::{Charge, Class, Failure};
use bytes::Bytes;
use events::leave::Leave;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderValue};
use std::time::Duration;
use tokio::time::{Instant, timeout_at};
use url::Url;

/// The longest that the issuer takes, from the connection to the last byte. Others wait for a token meanwhile.
pub const PLAIN: Duration = Duration::from_secs(20);
/// Bytes of the largest answer: three tokens with their claims have a few thousand.
const BYTES_MAX: usize = 64 << 10;

/// What came back.
pub(crate) struct Said {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Drop for Said {
    fn drop(&mut self) {
        self.body.fill(0);
        // Best effort without unsafe code: the optimiser must believe that the zeros are read.
        std::hint::black_box(&self.body);
    }
}

impl Client {
    /// Sends a body, if it may still leave when it is about to be written, and reads what comes back.
    pub(crate) async fn post(
        &self,
        url: Url,
        kind: &'static str,
        body: Vec<u8>,
        leave: &Leave,
    ) -> Result<Said, Unanswered> {
        let ends = Instant::now() + PLAIN;
        let refused = Refused::default();
        let leaving = Leaving::new(Bytes::from(body), leave.clone(), refused.clone());
        let ask = self
            .http
            .post(url)
            .header(ACCEPT, HeaderValue::from_static("application/json"))
            .header(CONTENT_TYPE, HeaderValue::from_static(kind))
            .header("originator", HeaderValue::from_static(super::ORIGINATOR))
            .body(reqwest::Body::wrap(leaving));
        let exchange = async {
            let sent = ask.send().await;
            let mut response = sent.map_err(|error| broken::failure(&error, Stage::Asking))?;
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let mut said = Said { status, headers, body: Vec::new() };
            while let Some(bytes) =
                response.chunk().await.map_err(|error| broken::failure(&error, Stage::Reading))?
            {
                if said.body.len() + bytes.len() > BYTES_MAX {
                    let words = format!("the answer is longer than {BYTES_MAX} bytes");
                    return Err(Failure::ours(Class::StreamError, Charge::Unknown, &words));
                }
                said.body.extend_from_slice(&bytes);
            }
            Ok(said)
        };
        match timeout_at(ends, exchange).await {
            Ok(Ok(said)) => Ok(said),
            Ok(Err(failure)) => Err(refused.or(failure)),
            Err(_) => {
                let words = format!("no answer within {} s", PLAIN.as_secs());
                Err(refused.or(Failure::ours(Class::Timeout, Charge::Unknown, &words)))
            }
        }
    }
}
