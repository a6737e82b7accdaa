//! Bodies and queries whose refusals have the shape of every other error here.

use crate::error::{ApiError, Code};
use axum::extract::rejection::{BytesRejection, FailedToBufferBody};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use bytes::Bytes;
use serde::de::DeserializeOwned;

/// The whole body, within the node's limit.
#[derive(Debug)]
pub struct Whole(pub Bytes);

impl<S: Send + Sync> FromRequest<S> for Whole {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        match Bytes::from_request(request, state).await {
            Ok(bytes) => Ok(Self(bytes)),
            Err(BytesRejection::FailedToBufferBody(FailedToBufferBody::LengthLimitError(_))) => {
                Err(too_large())
            }
            Err(rejection) => Err(ApiError::new(
                Code::InvalidRequest,
                format!("the body can not be read: {rejection}"),
            )),
        }
    }
}

/// What a body over the limit is told.
#[must_use]
pub fn too_large() -> ApiError {
    let why = "the body is larger than limits.max_body_bytes: send less, or raise it";
    ApiError::new(Code::PayloadTooLarge, why.to_owned())
}

/// A JSON body. An unknown field is an error where the type says so.
#[derive(Debug)]
pub struct Json<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for Json<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, state: &S) -> Result<Self, ApiError> {
        let Whole(bytes) = Whole::from_request(request, state).await?;
        serde_json::from_slice(&bytes)
            .map(Self)
            .map_err(|error| malformed("the body", &error.to_string()))
    }
}

/// The query of an address.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, ApiError> {
        match axum::extract::Query::<T>::try_from_uri(&parts.uri) {
            Ok(axum::extract::Query(query)) => Ok(Self(query)),
            Err(rejection) => Err(malformed("the query", &rejection.body_text())),
        }
    }
}

/// What text that does not read as it should is told.
#[must_use]
pub fn malformed(what: &str, why: &str) -> ApiError {
    let code =
        if why.contains("unknown field") { Code::UnknownField } else { Code::InvalidRequest };
    ApiError::new(code, format!("{what}: {why}"))
}
